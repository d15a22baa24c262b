/* device_names.h: renames the CUDA runtime's functions, so that device_test.c
 * can compare them with the CPU's. */
#define parc_copy cuda_copy
#define parc_copy_rows cuda_copy_rows
#define parc_local_slice cuda_local_slice
#define parc_mask_to_partial cuda_mask_to_partial
#define parc_split_key cuda_split_key
#define parc_embedding cuda_embedding
#define parc_embedding_grad cuda_embedding_grad
#define parc_topk cuda_topk
#define parc_topk_grad cuda_topk_grad
#define parc_group_rows cuda_group_rows
#define parc_limit_choices cuda_limit_choices
#define parc_gather_rows cuda_gather_rows
#define parc_combine_rows cuda_combine_rows
#define parc_gather_pairs cuda_gather_pairs
#define parc_scatter_pairs cuda_scatter_pairs
#define parc_grouped_matmul cuda_grouped_matmul
