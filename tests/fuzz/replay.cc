// Runs a fuzz target once over each file that is named, or lies in a folder that is named: the fuzzers' corpora as
// tests, without the fuzzer's own runtime.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

bool run(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    if (!file.good() && !file.eof()) {
        std::fprintf(stderr, "replay: couldn't read '%s'\n", path.c_str());
        return false;
    }
    // Shown before the run, so that a crash names its file.
    std::printf("%s, %zu bytes\n", path.c_str(), bytes.size());
    std::fflush(stdout);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    size_t count = 0;
    for (int index = 1; index < argc; index++) {
        if (!std::filesystem::is_directory(argv[index])) {
            if (!run(argv[index])) return 1;
            count++;
            continue;
        }
        for (const auto& each : std::filesystem::directory_iterator(argv[index])) {
            if (!run(each.path())) return 1;
            count++;
        }
    }
    // A corpus that is not there is a mistake, not a pass.
    if (count == 0) std::fprintf(stderr, "replay: no input; name files or folders\n");
    return count == 0 ? 1 : 0;
}
