// The runner of every unit test: Criterion's own, but left through _exit, because Criterion itself leaks a few bytes at
// exit and a suppression by its name would hide the leaks of every test.
#include <criterion/criterion.h>
#include <unistd.h>

int main(int argc, char** argv) {
    criterion_test_set* tests = criterion_initialize();
    int status = 0;
    if (criterion_handle_args(argc, argv, true)) status = !criterion_run_all_tests(tests);
    criterion_finalize(tests);
    ::fflush(nullptr);
    ::_exit(status);
}
