#pragma once
#include <cstdint>

#include <troupe/kernels/ops/gemm.h>

namespace troupe::ops::cpu {

/// c[m, n] = op(a)[m, k] op(b)[k, n] + beta c on dense row-major matrices, as GemmOps::gemm, on as many
/// threads as OpenMP is set to (see UseThreads).
///
/// float is oneDNN's dnnl_sgemm: on an AVX-512 Xeon 130-175 GFLOP/s a thread for the products of MLP training
/// against OpenBLAS's 100-152 (128 x 512 x 784: 145-162 against 124-127), and OpenBLAS would need its thread
/// count set for the whole process. double is plain loops, to be read.
void matmul(Trans trans_a, Trans trans_b, int64_t m, int64_t n, int64_t k, const float* a, const float* b,
            float beta, float* c);
void matmul(Trans trans_a, Trans trans_b, int64_t m, int64_t n, int64_t k, const double* a, const double* b,
            double beta, double* c);

/// Where a matrix lies that is part of a larger one: its rows begin `stride` elements apart.
template <class T>
struct Rows {
  T* data;
  int64_t stride;
};

/// c = alpha op(a) op(b) + beta c, as above, on matrices with strides. On the calling thread alone where it is one of
/// a parallel loop.
void matmul_rows(Trans trans_a, Trans trans_b, int64_t m, int64_t n, int64_t k, float alpha, Rows<const float> a,
                 Rows<const float> b, float beta, Rows<float> c);
void matmul_rows(Trans trans_a, Trans trans_b, int64_t m, int64_t n, int64_t k, double alpha, Rows<const double> a,
                 Rows<const double> b, double beta, Rows<double> c);

}  // namespace troupe::ops::cpu
