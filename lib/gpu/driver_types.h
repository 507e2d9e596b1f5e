// The few types and numbers of the CUDA driver API that Varde uses, under our own names: no build needs CUDA for it.
//
// tests/checks/cuda_header compares every line with NVIDIA's cuda.h where there is one.  Enumerations of cuda.h are
// plain numbers here, because a number of a later driver may have no name yet.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;

namespace varde::gpu::cuda {

using status = unsigned;  // CUresult
using ordinal = int;      // CUdevice
using pointer = unsigned long long;
using context = ::CUctx_st*;
using stream = ::CUstream_st*;
using event = ::CUevent_st*;

constexpr status success = 0;
constexpr status invalid_value = 1;
constexpr status out_of_memory = 2;
constexpr status not_initialized = 3;
constexpr status deinitialized = 4;
constexpr status stub_library = 34;
constexpr status no_device = 100;
constexpr status not_ready = 600;
constexpr status capture_implicit = 906;

// CUpointer_attribute
constexpr unsigned attribute_context = 1;
constexpr unsigned attribute_memory_type = 2;
constexpr unsigned attribute_is_managed = 8;
constexpr unsigned attribute_ordinal = 9;

// CUmemorytype
constexpr unsigned memory_host = 1;
constexpr unsigned memory_device = 2;

constexpr unsigned stream_non_blocking = 1;
constexpr unsigned event_disable_timing = 2;
constexpr unsigned register_portable = 1;
constexpr unsigned capture_none = 0;          // CUstreamCaptureStatus
constexpr unsigned capture_mode_relaxed = 2;  // CUstreamCaptureMode

// CU_STREAM_LEGACY: the default stream that waits for all blocking streams of its context, and they for it.
constexpr uintptr_t legacy_stream_handle = 1;
inline stream legacy_stream() noexcept { return reinterpret_cast<stream>(legacy_stream_handle); }

}  // namespace varde::gpu::cuda

// Every call that Varde makes: our name, the driver's symbol (cuda.h maps cuMemHostRegister to cuMemHostRegister_v2,
// and so on), its type.
#define VARDE_CUDA_CALLS(CALL)                                                                     \
    CALL(get_error_name, cuGetErrorName, status(status, const char**))                             \
    CALL(context_push, cuCtxPushCurrent_v2, status(context))                                       \
    CALL(context_pop, cuCtxPopCurrent_v2, status(context*))                                        \
    CALL(context_ordinal, cuCtxGetDevice, status(ordinal*))                                        \
    CALL(device_bus_id, cuDeviceGetPCIBusId, status(char*, int, ordinal))                          \
    CALL(context_priorities, cuCtxGetStreamPriorityRange, status(int*, int*))                      \
    CALL(primary_retain, cuDevicePrimaryCtxRetain, status(context*, ordinal))                      \
    CALL(primary_release, cuDevicePrimaryCtxRelease_v2, status(ordinal))                           \
    CALL(pointer_attributes, cuPointerGetAttributes, status(unsigned, unsigned*, void**, pointer)) \
    CALL(host_register, cuMemHostRegister_v2, status(void*, size_t, unsigned))                     \
    CALL(host_unregister, cuMemHostUnregister, status(void*))                                      \
    CALL(stream_create, cuStreamCreateWithPriority, status(stream*, unsigned, int))                \
    CALL(stream_destroy, cuStreamDestroy_v2, status(stream))                                       \
    CALL(stream_context, cuStreamGetCtx, status(stream, context*))                                 \
    CALL(stream_is_capturing, cuStreamIsCapturing, status(stream, unsigned*))                      \
    CALL(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, status(unsigned*))              \
    CALL(event_create, cuEventCreate, status(event*, unsigned))                                    \
    CALL(event_destroy, cuEventDestroy_v2, status(event))                                          \
    CALL(event_record, cuEventRecord, status(event, stream))                                       \
    CALL(event_query, cuEventQuery, status(event))                                                 \
    CALL(copy_to_host, cuMemcpyDtoHAsync_v2, status(void*, pointer, size_t, stream))               \
    CALL(copy_to_device, cuMemcpyHtoDAsync_v2, status(pointer, const void*, size_t, stream))
