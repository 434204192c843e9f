// A CUDA C++ program for `cargo xtask cuda`: what a first program uses, and a race on demand.
//
// usage: check [racy]

#include <cstdio>
#include <cstring>
#include <vector>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t error = (call);                                                                \
        if (error != cudaSuccess) {                                                                \
            std::printf("%s: %s (%s)\n", #call, cudaGetErrorName(error), cudaGetErrorString(error)); \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

__device__ int step = 5;
__constant__ float weights[4];
__managed__ int launches = 0;

template <class T>
__global__ void add(const T *a, const T *b, T *sum, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) sum[i] = a[i] + b[i] + T(step);
}

// The sum of each block's values, through dynamic shared memory, times a constant.
__global__ void reduce(const int *values, float *sums, bool wait) {
    extern __shared__ int shared[];
    int thread = threadIdx.x;
    shared[thread] = values[blockIdx.x * blockDim.x + thread];
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (wait) __syncthreads();
        if (thread < half) shared[thread] += shared[thread + half];
    }
    if (thread == 0) sums[blockIdx.x] = weights[3] * shared[0];
}

__global__ void total(const float *sums, float *result) {
    atomicAdd(result, sums[threadIdx.x]);
    if (threadIdx.x == 0) printf("launch %d of total, %.2f first\n", ++launches, sums[0]);
}

int main(int argument_count, char **) {
    constexpr int COUNT = 512, BLOCKS = 4, THREADS = 128;
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    std::printf("on %s, sm_%d%d\n", properties.name, properties.major, properties.minor);

    std::vector<int> a(COUNT), b(COUNT), sum(COUNT);
    for (int i = 0; i < COUNT; i++) a[i] = i, b[i] = 2 * i;
    int *device_a, *device_b, *device_sum;
    float *sums, *result;
    CHECK(cudaMalloc(&device_a, COUNT * sizeof(int)));
    CHECK(cudaMalloc(&device_b, COUNT * sizeof(int)));
    CHECK(cudaMalloc(&device_sum, COUNT * sizeof(int)));
    CHECK(cudaMalloc(&sums, BLOCKS * sizeof(float)));
    CHECK(cudaMallocManaged(&result, sizeof(float)));
    CHECK(cudaMemcpy(device_a, a.data(), COUNT * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_b, b.data(), COUNT * sizeof(int), cudaMemcpyHostToDevice));

    add<<<BLOCKS, THREADS>>>(device_a, device_b, device_sum, COUNT);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(sum.data(), device_sum, COUNT * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < COUNT; i++)
        if (sum[i] != 3 * i + 5) return std::printf("sum %d is %d\n", i, sum[i]), 1;

    float host_weights[4] = {0, 0, 0, 0.5f};
    CHECK(cudaMemcpyToSymbol(weights, host_weights, sizeof host_weights));
    cudaStream_t stream;
    cudaEvent_t begin, end;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaFuncSetAttribute(reduce, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 * 1024));
    CHECK(cudaEventRecord(begin, stream));
    *result = 0;
    launches = 6;
    reduce<<<BLOCKS, THREADS, THREADS * sizeof(int), stream>>>(device_sum, sums, true);
    total<<<1, BLOCKS, 0, stream>>>(sums, result);
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaStreamSynchronize(stream));
    float expected = 0.5f * (3 * (COUNT - 1) * COUNT / 2 + 5 * COUNT), milliseconds;
    CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    if (launches != 7) return std::printf("%d launches, not 7\n", launches), 1;
    if (*result != expected) return std::printf("total %g, not %g\n", *result, expected), 1;

    if (argument_count > 1) {
        reduce<<<BLOCKS, THREADS, THREADS * sizeof(int)>>>(device_sum, sums, false);
        CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaFree(device_a));
    CHECK(cudaFree(device_b));
    CHECK(cudaFree(device_sum));
    std::printf("all right\n");
}
