// varde: looks at checkpoints.
#include "cli/program.h"

int main(int argc, char** argv) { return varde::cli::run(argc, argv, {stdout, stderr}); }
