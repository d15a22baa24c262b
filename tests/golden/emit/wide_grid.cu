    parc_launch(rt, 0, 2147483648, 256, 0, (void *[]){&y, &up_out});
    parc_launch(rt, 1, 1, 32, 0, (void *[]){&scale, &down_out});
    parc_launch(rt, 2, 1, 32, 0, (void *[]){&d_down_out, &down_out});
    parc_launch(rt, 3, 2147483648, 256, 0,
    parc_launch(rt, 4, 264, 512, 0, (void *[]){&down_weight_new, &d_down_weight,
    parc_launch(rt, 5, 1, 32, 0, (void *[]){&sumsq, &workspace});
    parc_launch(rt, 6, 264, 512, 0, (void *[]){&up_weight_new, &d_up_weight,
    parc_launch(rt, 7, 1, 32, 0, (void *[]){&grad_norm, &sumsq, &workspace});
    const int64_t block = wide_block_index();
    if (block >= 2147483648)
    const int64_t at = block * 256 + thread_index();
    const int64_t block = wide_block_index();
    if (block >= 2147483648)
    const int64_t at = block * 256 + thread_index();
