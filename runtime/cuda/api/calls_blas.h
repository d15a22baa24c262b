/* calls_blas.h: lists all functions of cuBLASLt that the runtime calls, as
 * CALL(result, name, symbol, (arguments)); see calls_driver.h. Their matrices
 * are column-major.
 */
CALL(size_t, cublasLtGetVersion, "cublasLtGetVersion", (void))
CALL(const char *, cublasLtGetStatusString, "cublasLtGetStatusString",
     (BlasStatus status))
CALL(BlasStatus, cublasLtCreate, "cublasLtCreate", (BlasHandle *handle))
CALL(BlasStatus, cublasLtDestroy, "cublasLtDestroy", (BlasHandle handle))

CALL(BlasStatus, cublasLtMatmulDescCreate, "cublasLtMatmulDescCreate",
     (BlasProduct *product, BlasCompute compute, BlasType scale))
CALL(BlasStatus, cublasLtMatmulDescSetAttribute,
     "cublasLtMatmulDescSetAttribute",
     (BlasProduct product, BlasProductAttribute attribute, const void *value,
      size_t bytes))
CALL(BlasStatus, cublasLtMatmulDescDestroy, "cublasLtMatmulDescDestroy",
     (BlasProduct product))

CALL(BlasStatus, cublasLtMatrixLayoutCreate, "cublasLtMatrixLayoutCreate",
     (BlasLayout *layout, BlasType type, uint64_t rows, uint64_t columns,
      int64_t leading))
CALL(BlasStatus, cublasLtMatrixLayoutSetAttribute,
     "cublasLtMatrixLayoutSetAttribute",
     (BlasLayout layout, BlasLayoutAttribute attribute, const void *value,
      size_t bytes))
CALL(BlasStatus, cublasLtMatrixLayoutDestroy, "cublasLtMatrixLayoutDestroy",
     (BlasLayout layout))

CALL(BlasStatus, cublasLtMatmulPreferenceCreate,
     "cublasLtMatmulPreferenceCreate", (BlasPreference *preference))
CALL(BlasStatus, cublasLtMatmulPreferenceSetAttribute,
     "cublasLtMatmulPreferenceSetAttribute",
     (BlasPreference preference, BlasPreferenceAttribute attribute,
      const void *value, size_t bytes))
CALL(BlasStatus, cublasLtMatmulPreferenceDestroy,
     "cublasLtMatmulPreferenceDestroy", (BlasPreference preference))

CALL(BlasStatus, cublasLtMatmulAlgoGetHeuristic,
     "cublasLtMatmulAlgoGetHeuristic",
     (BlasHandle handle, BlasProduct product, BlasLayout a, BlasLayout b,
      BlasLayout c, BlasLayout d, BlasPreference preference, int wanted,
      BlasCandidate candidate[], int *found))
CALL(BlasStatus, cublasLtMatmulAlgoCheck, "cublasLtMatmulAlgoCheck",
     (BlasHandle handle, BlasProduct product, BlasLayout a, BlasLayout b,
      BlasLayout c, BlasLayout d, const BlasAlgorithm *algorithm,
      BlasCandidate *candidate))
CALL(BlasStatus, cublasLtMatmul, "cublasLtMatmul",
     (BlasHandle handle, BlasProduct product, const void *alpha, const void *a,
      BlasLayout a_layout, const void *b, BlasLayout b_layout, const void *beta,
      const void *c, BlasLayout c_layout, void *d, BlasLayout d_layout,
      const BlasAlgorithm *algorithm, void *workspace, size_t workspace_bytes,
      BlasStream stream))
#undef CALL
