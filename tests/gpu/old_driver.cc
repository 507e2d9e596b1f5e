// A driver library from before the calls that Varde needs: it has one of them.
extern "C" unsigned cuGetErrorName(unsigned, const char**) { return 1; }
