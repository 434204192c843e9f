"""A kernel that does not end, by the driver API: `sixwarp capture --timeout 20 -- python endless.py`."""

import ctypes

PTX = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry endless(.param .u64 words)
{
    .reg .pred %p; .reg .b32 %r; .reg .b64 %rd;
    ld.param.u64 %rd, [words];
again:
    ld.volatile.global.u32 %r, [%rd];
    setp.ne.u32 %p, %r, 0;
    @%p bra again;
    ret;
}
"""

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    assert result == 0, f"{name}: error {result}"


context, module, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
memory, word = ctypes.c_uint64(), ctypes.c_uint32(7)
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuModuleLoadData", ctypes.byref(module), PTX)
call("cuModuleGetFunction", ctypes.byref(kernel), module, b"endless")
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(256))
call("cuMemcpyHtoD_v2", memory, ctypes.byref(word), ctypes.c_size_t(4))
parameters = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
call("cuLaunchKernel", kernel, 1, 1, 1, 32, 1, 1, 0, None, parameters, None)
call("cuCtxSynchronize")
