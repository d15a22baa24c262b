    parc_launch(rt, PARC_COMPUTE, 0, 2147483648, 256, 0,
    parc_launch(rt, PARC_COMPUTE, 1, 1, 32, 0, (void *[]){&scale, &down_out});
    parc_launch(rt, PARC_COMPUTE, 2, 1, 32, 0,
    parc_launch(rt, PARC_COMPUTE, 3, 2147483648, 256, 0,
    parc_launch(rt, PARC_COMPUTE, 4, 264, 512, 0, (void *[]){&down_weight_new,
    parc_launch(rt, PARC_COMPUTE, 5, 1, 32, 0, (void *[]){&sumsq, &workspace});
    parc_launch(rt, PARC_COMPUTE, 6, 264, 512, 0, (void *[]){&up_weight_new,
    parc_launch(rt, PARC_COMPUTE, 7, 1, 32, 0,
    const int64_t block = wide_block_index();
    if (block >= 2147483648)
    const int64_t at = block * 256 + thread_index();
    const int64_t block = wide_block_index();
    if (block >= 2147483648)
    const int64_t at = block * 256 + thread_index();
