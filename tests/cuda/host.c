/* A CUDA program as nvcc -cudart shared makes one, written out in C, so that a test needs no nvcc: a fat binary is
   registered before main, and kernels are launched through the runtime.

   With -DCOMPRESSED the fat binary's PTX is a zstd frame, as nvcc has written it since 12.8. With an argument the
   program also launches a kernel whose threads race. */

#include <stdio.h>
#include <string.h>

typedef struct { unsigned x, y, z; } dim3;
enum { TO_DEVICE = 1, FROM_DEVICE = 2 };

void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, dim3 *, dim3 *, int *);
void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream);
int __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
int cudaLaunchKernel(const void *, dim3 grid, dim3 block, void **arguments, size_t shared, void *stream);
int cudaMalloc(void **pointer, size_t bytes);
int cudaFree(void *pointer);
int cudaMemcpy(void *to, const void *from, size_t bytes, int kind);
int cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset, int kind);
int cudaDeviceSynchronize(void);
int cudaGetLastError(void);
int cudaRuntimeGetVersion(int *version);
const char *cudaGetErrorString(int error);

static const char PTX[] =
    ".version 8.7\n.target sm_90a\n.address_size 64\n.file 1 \"host.cu\"\n"
    ".visible .global .u32 step = 5;\n"
    ".visible .entry add(.param .u64 words, .param .u32 count)\n{\n"
    "    .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<2>;\n"
    "    ld.param.u64 %rd0, [words];\n    ld.param.u32 %r3, [count];\n    mov.u32 %r0, %tid.x;\n"
    "    setp.ge.u32 %p, %r0, %r3;\n    @%p bra done;\n"
    "    mul.wide.u32 %rd1, %r0, 4;\n    add.u64 %rd0, %rd0, %rd1;\n"
    "    ld.global.u32 %r1, [%rd0];\n    ld.global.u32 %r2, [step];\n"
    "    add.u32 %r1, %r1, %r2;\n    st.global.u32 [%rd0], %r1;\ndone:\n    ret;\n}\n"
    ".visible .entry sum(.param .u64 words, .param .u32 count)\n{\n"
    "    .reg .b32 %r<2>; .reg .b64 %rd0;\n"
    "    ld.param.u64 %rd0, [words];\n"
    "    .loc 1 7 0\n    ld.global.u32 %r0, [%rd0];\n    add.u32 %r1, %r0, 1;\n"
    "    .loc 1 8 0\n    st.global.u32 [%rd0], %r1;\n    ret;\n}\n";

/* A header of 16 bytes, an entry's header of 64, and the entry. */
static unsigned char image[16 + 64 + sizeof PTX + 24];
static struct { unsigned magic, version; void *data, *unused; } wrapper = {0x466243B1, 1, image, NULL};
static void **handle;
static unsigned step; /* The host's namesake of the variable. */

static void put(size_t at, unsigned long long value, size_t bytes) { memcpy(image + at, &value, bytes); }

static size_t put_data(size_t at) {
#ifdef COMPRESSED
    /* One segment whose size takes two bytes, and one block that is not compressed. */
    put(at, 0xFD2FB528, 4), put(at + 4, 0x60, 1), put(at + 5, sizeof PTX - 256, 2);
    put(at + 7, 1 | sizeof PTX << 3, 3), memcpy(image + at + 10, PTX, sizeof PTX);
    return sizeof PTX + 10;
#else
    memcpy(image + at, PTX, sizeof PTX);
    return sizeof PTX;
#endif
}

static void add(void *words, unsigned count) {
    void *arguments[] = {&words, &count};
    dim3 grid, block;
    size_t shared;
    void *stream;
    if (__cudaPopCallConfiguration(&grid, &block, &shared, &stream) == 0)
        cudaLaunchKernel((const void *)add, grid, block, arguments, shared, stream);
}

static void sum(void *words, unsigned count) {
    void *arguments[] = {&words, &count};
    cudaLaunchKernel((const void *)sum, (dim3){1, 1, 1}, (dim3){64, 1, 1}, arguments, 0, NULL);
}

__attribute__((constructor)) static void register_all(void) {
    size_t bytes = put_data(80), padded = (bytes + 7) / 8 * 8;
    put(0, 0xBA55ED50, 4), put(4, 1, 2), put(6, 16, 2), put(8, 64 + padded, 8);
    put(16, 1, 2), put(16 + 4, 64, 4), put(16 + 8, padded, 8), put(16 + 16, bytes, 4);
    put(16 + 28, 90, 4), put(16 + 56, sizeof PTX, 8);
#ifdef COMPRESSED
    put(16 + 40, 0x8000, 8);
#endif
    handle = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(handle, (const char *)add, "add", "add", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFunction(handle, (const char *)sum, "sum", "sum", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterVar(handle, (char *)&step, "step", "step", 0, sizeof step, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
}

__attribute__((destructor)) static void unregister_all(void) { __cudaUnregisterFatBinary(handle); }

int main(int count, char **arguments) {
    unsigned words[40], more = 100;
    int version = 0;
    void *device;
    for (unsigned i = 0; i < 40; i++) words[i] = i;
    cudaRuntimeGetVersion(&version);
    cudaMalloc(&device, sizeof words);
    cudaMemcpy(device, words, sizeof words, TO_DEVICE);
    if (!__cudaPushCallConfiguration((dim3){1, 1, 1}, (dim3){64, 1, 1}, 0, NULL)) add(device, 40);
    cudaMemcpyToSymbol(&step, &more, sizeof more, 0, TO_DEVICE);
    if (!__cudaPushCallConfiguration((dim3){1, 1, 1}, (dim3){64, 1, 1}, 0, NULL)) add(device, 40);
    cudaMemcpy(words, device, sizeof words, FROM_DEVICE);
    printf("runtime %d: words %u and %u, %s\n", version / 1000, words[0], words[39],
           cudaGetErrorString(cudaGetLastError()));
    if (count > 1) sum(device, 40);
    printf("end: %s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    (void)arguments;
    return cudaFree(device);
}
