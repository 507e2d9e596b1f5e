// Finding the driver, and what it knows of pointers.
#include "gpu/devices.h"
#include "tests/gpu/simulated.h"

#include <criterion/criterion.h>
#include <cstring>

using namespace varde;
using namespace varde::gpu;
using varde::test::rig;
using varde::test::simulated;

namespace {

const char* missing;  // what the looking up below does not find
std::byte some_function;

void* look_up(void*, const char* symbol) {
    return missing != nullptr && std::strcmp(symbol, missing) == 0 ? nullptr : &some_function;
}

// What the product reads of the library that the rig has opened.
cuda::driver driver_table() {
    auto found = loaded_driver();
    cr_assert(found.has_value() && found->has_value());
    return **found;
}

location found(const void* data, uint64_t size) {
    const auto where = locate(driver_table(), data, size);
    cr_assert(where.has_value(), "%s", where ? "" : where.error().context.c_str());
    return *where;
}

}  // namespace

Test(gpu_driver, each_missing_function_is_named) {
    const char* const all[] = {
#define VARDE_CALL(name, symbol, type) #symbol,
        VARDE_CUDA_CALLS(VARDE_CALL)
#undef VARDE_CALL
    };
    for (const char* each : all) {
        missing = each;
        const auto made = read_driver(nullptr, look_up);
        cr_assert(!made.has_value() && made.error().what == code::unavailable);
        cr_assert(made.error().context.find("'" + std::string(each) + "'") != std::string::npos);
    }
    missing = nullptr;
    cr_assert(read_driver(nullptr, look_up).has_value());
}

Test(gpu_driver, a_process_without_a_driver_gets_none) {
    const auto found = loaded_driver();
    cr_assert(found.has_value() && !found->has_value());
    devices all(1000);
    std::byte memory[16];
    cr_assert(all.locate(memory, sizeof memory).value().by == nullptr);
    cr_assert(all.order_after(nullptr).error().what == code::invalid);
    cr_assert(all.order().has_value() && all.await_order().has_value());
}

Test(gpu_driver, an_error_has_name_and_number) {
    rig gpus;
    const failure why = cuda_error(driver_table(), 214, "copying");
    cr_assert(why.what == code::io);
    cr_assert_str_eq(why.context.c_str(), "copying: CUDA_ERROR_ECC_UNCORRECTABLE (214)");
    const failure unknown = cuda_error(driver_table(), 12345, "copying");
    cr_assert_str_eq(unknown.context.c_str(), "copying: an error without a name (12345)");
}

Test(gpu_driver, knows_the_gpu_that_the_program_has_chosen) {
    rig gpus(2);
    cr_assert(current_bus_id(driver_table()) == "0000:1A:00.0");
    gpus.use(1);
    cr_assert(current_bus_id(driver_table()) == "0000:1B:00.0");
    gpus.leave();
    cr_assert(!current_bus_id(driver_table()), "it has chosen none");
}

Test(gpu_pointer, kinds_of_memory_are_told_apart) {
    rig gpus(2);
    std::vector<std::byte> plain(64);
    cr_assert(found(plain.data(), plain.size()) == location{});
    cr_assert(found(nullptr, 0) == location{});
    for (size_t gpu = 0; gpu < 2; gpu++) {
        const auto ordinal = static_cast<int>(gpu);
        const location device = found(gpus.device_memory(gpu, 64), 64);
        cr_assert(device.kind == memory::device && device.ordinal == ordinal && device.context != nullptr);
        const location pool = found(gpus.pool_memory(gpu, 64), 64);
        cr_assert(pool.kind == memory::device && pool.ordinal == ordinal && pool.context == nullptr);
        const location managed = found(gpus.managed_memory(gpu, 64), 64);
        cr_assert(managed.kind == memory::managed && managed.ordinal == ordinal);
        const location pinned = found(gpus.pinned_memory(gpu, 64), 64);
        cr_assert(pinned.kind == memory::pinned && pinned.ordinal == ordinal);
    }
}

Test(gpu_pointer, registered_host_memory_is_pinned_also_in_part) {
    rig gpus;
    std::vector<std::byte> some(8192);
    gpus.call("cuMemHostRegister_v2", static_cast<void*>(some.data()), size_t{4096}, 0U);
    cr_assert(found(some.data(), 4096).kind == memory::pinned);
    cr_assert(found(some.data(), 8192).kind == memory::pinned);
    cr_assert(found(some.data() + 4096, 4096).kind == memory::host);
}

Test(gpu_pointer, a_tensor_that_ends_in_other_memory_is_refused) {
    rig gpus;
    const std::byte* memory = gpus.device_memory(0, 4096);
    const auto where = locate(driver_table(), memory, 3ULL << 40);
    cr_assert(!where.has_value() && where.error().what == code::invalid);
    cr_assert(where.error().context.find("begin in device memory of GPU 0 and end in host memory") !=
              std::string::npos);
}

Test(gpu_pointer, a_driver_that_is_not_initialised_knows_no_memory) {
    rig gpus(0, false);
    std::byte plain[8];
    cr_assert(found(plain, sizeof plain) == location{});
    cr_assert(simulated(gpus).calls("cuInit") == 0);
}

Test(gpu_pointer, a_refusal_of_the_driver_is_no_answer) {
    rig gpus;
    std::byte plain[8];
    simulated(gpus).fail_call("cuPointerGetAttributes", 1, 201, false);
    const auto where = locate(driver_table(), plain, sizeof plain);
    cr_assert(!where.has_value() && where.error().what == code::io);
    cr_assert(where.error().context.find("CUDA_ERROR_INVALID_CONTEXT (201)") != std::string::npos);
}

Test(gpu_devices, one_device_per_context) {
    rig gpus(2);
    const auto before = simulated(gpus).count();
    std::optional<devices> made(std::in_place, uint64_t{1000});
    devices& all = *made;
    const auto* first = all.locate(gpus.device_memory(0, 8), 8)->by;
    cr_assert(first != nullptr && all.locate(gpus.device_memory(0, 8), 8)->by == first);
    cr_assert(all.locate(gpus.managed_memory(0, 8), 8)->by == first);
    cr_assert(all.locate(gpus.device_memory(1, 8), 8)->by != first);
    // The host copies it, though its GPU is known.
    cr_assert(all.locate(gpus.pinned_memory(1, 8), 8)->by == nullptr);
    // Memory without a context is used in the primary one, which is that of the others here.
    cr_assert(all.locate(gpus.pool_memory(0, 8), 8)->by == first);
    cr_assert(all.locate(gpus.pool_memory(0, 8), 8)->by == first);
    cr_assert(simulated(gpus).count().streams == 2 && simulated(gpus).count().retains == before.retains + 1);
    made.reset();
    cr_assert(simulated(gpus).count().streams == 0 && simulated(gpus).count().retains == before.retains);
}
