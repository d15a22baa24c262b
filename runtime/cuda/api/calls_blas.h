/* calls_blas.h: lists all functions of cuBLASLt that the runtime calls, as
 * CALL(result, name, suffix, (arguments)); see calls_driver.h. Their matrices
 * are column-major.
 */
CALL(size_t, cublasLtGetVersion, , (void))
CALL(const char *, cublasLtGetStatusString, , (BlasStatus status))
CALL(BlasStatus, cublasLtCreate, , (BlasHandle *handle))
CALL(BlasStatus, cublasLtDestroy, , (BlasHandle handle))

CALL(BlasStatus, cublasLtMatmulDescCreate, ,
     (BlasProduct *product, BlasCompute compute, BlasType scale))
CALL(BlasStatus, cublasLtMatmulDescSetAttribute, ,
     (BlasProduct product, BlasProductAttribute attribute, const void *value,
      size_t bytes))
CALL(BlasStatus, cublasLtMatmulDescDestroy, , (BlasProduct product))

CALL(BlasStatus, cublasLtMatrixLayoutCreate, ,
     (BlasLayout *layout, BlasType type, uint64_t rows, uint64_t columns,
      int64_t leading))
CALL(BlasStatus, cublasLtMatrixLayoutSetAttribute, ,
     (BlasLayout layout, BlasLayoutAttribute attribute, const void *value,
      size_t bytes))
CALL(BlasStatus, cublasLtMatrixLayoutDestroy, , (BlasLayout layout))

CALL(BlasStatus, cublasLtMatmulPreferenceCreate, , (BlasPreference *preference))
CALL(BlasStatus, cublasLtMatmulPreferenceSetAttribute, ,
     (BlasPreference preference, BlasPreferenceAttribute attribute, const void
      *value, size_t bytes))
CALL(BlasStatus, cublasLtMatmulPreferenceDestroy, , (BlasPreference preference))

CALL(BlasStatus, cublasLtMatmulAlgoGetHeuristic, ,
     (BlasHandle handle, BlasProduct product, BlasLayout a, BlasLayout b,
      BlasLayout c, BlasLayout d, BlasPreference preference, int wanted,
      BlasCandidate candidate[], int *found))
CALL(BlasStatus, cublasLtMatmulAlgoCheck, ,
     (BlasHandle handle, BlasProduct product, BlasLayout a, BlasLayout b,
      BlasLayout c, BlasLayout d, const BlasAlgorithm *algorithm, BlasCandidate
      *candidate))
CALL(BlasStatus, cublasLtMatmul, ,
     (BlasHandle handle, BlasProduct product, const void *alpha, const void *a,
      BlasLayout a_layout, const void *b, BlasLayout b_layout, const void *beta,
      const void *c, BlasLayout c_layout, void *d, BlasLayout d_layout, const
      BlasAlgorithm *algorithm, void *workspace, size_t workspace_bytes,
      BlasStream stream))
