    parc_record(rt, PARC_COMPUTE, 0);
    for (int64_t layer = 0; layer <= 2; layer++) {
    for (int64_t layer = 0; layer <= 3; layer++) {
    for (int64_t layer = 3; layer >= 0; layer--) {
        const int64_t layer = 2;
        parc_all_gather(rt, 9, AXIS_dp, 2, (ParcPart[]){
        parc_record(rt, PARC_DATA, 15 + layer % 2);
    for (int64_t layer = 2; layer >= 0; layer--) {
    parc_wait(rt, PARC_DATA, 0); /* after: step start */
    parc_all_gather(rt, 0, AXIS_dp, 1, (ParcPart[]){
    parc_record(rt, PARC_DATA, 1);
        const int64_t layer = 0;
        parc_all_gather(rt, 1, AXIS_dp, 2, (ParcPart[]){
        parc_record(rt, PARC_DATA, 2 + layer % 2);
    parc_wait(rt, PARC_COMPUTE, 1); /* after: table.weight.bf16.2 */
    parc_embedding(rt, PARC_BF16, table_out, table_weight_bf16, tokens, 256, 64,
    if (layer + 1 <= 2) {
        const int64_t next = layer + 1;
        parc_wait(rt, PARC_DATA, 6); /* after: read of down.weight.bf16.3 */
        parc_all_gather(rt, 1, AXIS_dp, 2, (ParcPart[]){
        parc_record(rt, PARC_DATA, 2 + next % 2);
    if (layer == 2) {
        const int64_t next = 0;
        parc_all_gather(rt, 2, AXIS_dp, 2, (ParcPart[]){
        parc_record(rt, PARC_DATA, 4 + next % 2);
    parc_wait(rt, PARC_COMPUTE, 2 + layer % 2); /* after: up.weight.bf16.3 */
    parc_matmul(rt, matmul[0], x, up_weight_bf16, up_out);
    k00_small_gelu(rt, y, up_out);
    parc_matmul_with(rt, matmul[1], y, down_weight_bf16, add, NULL, x);
    parc_record(rt, PARC_COMPUTE, 6);
    if (layer + 1 <= 3) {
        const int64_t next = layer + 1;
        parc_wait(rt, PARC_DATA, 8); /* after: read of down.weight.2.bf16.3 */
        parc_all_gather(rt, 2, AXIS_dp, 2, (ParcPart[]){
        parc_record(rt, PARC_DATA, 4 + next % 2);
    if (layer == 3) {
        parc_all_gather(rt, 3, AXIS_dp, 1, (ParcPart[]){
        parc_record(rt, PARC_DATA, 7);
    parc_wait(rt, PARC_COMPUTE, 4 + layer % 2); /* after: up.weight.2.bf16.3 */
    parc_matmul(rt, matmul[2], x, up_weight_2_bf16, up_out);
    k01_large_gelu(rt, y, up_out);
    parc_matmul_with(rt, matmul[3], y, down_weight_2_bf16, add, NULL, x);
    parc_record(rt, PARC_COMPUTE, 8);
    parc_wait(rt, PARC_COMPUTE, 7); /* after: head.weight.bf16.2 */
    parc_matmul(rt, matmul[4], x, head_weight_bf16, head_out);
    parc_wait(rt, PARC_DATA, 8); /* after: read of y.5 */
    parc_all_gather(rt, 5, AXIS_dp, 1, (ParcPart[]){
    parc_record(rt, PARC_DATA, 9);
    k02_cross_entropy_and_grad(rt, scale, d_head_out, head_out, labels,
    parc_record(rt, PARC_COMPUTE, 10);
    parc_wait(rt, PARC_DATA, 10); /* after: scale.5 */
        const int64_t layer = 3;
        parc_all_gather(rt, 7, AXIS_dp, 2, (ParcPart[]){
        parc_record(rt, PARC_DATA, 11 + layer % 2);
    parc_wait(rt, PARC_COMPUTE, 9); /* after: head.weight.bf16.3 */
    parc_matmul(rt, matmul[5], d_head_out, head_weight_bf16, d_head_x);
    parc_matmul(rt, matmul[6], d_head_out, x, d_head_weight);
    parc_record(rt, PARC_COMPUTE, 13);
    parc_wait(rt, PARC_DATA, 13); /* after: d_head.weight */
    parc_reduce_scatter(rt, 6, AXIS_dp, 1, (ParcPart[]){
    if (layer >= 1) {
        const int64_t next = layer - 1;
        parc_all_gather(rt, 7, AXIS_dp, 2, (ParcPart[]){
        parc_record(rt, PARC_DATA, 11 + next % 2);
    parc_wait(rt, PARC_COMPUTE, 11 + layer % 2);
    parc_matmul(rt, matmul[7], d_head_x, down_weight_2_bf16, d_down_x);
    k03_large_gelu_grad(rt, y, d_up_out, up_out, d_down_x);
    parc_matmul(rt, matmul[8], d_head_x, y, d_down_weight);
    parc_matmul_with(rt, matmul[9], d_up_out, up_weight_2_bf16, d_large_x, NULL,
    parc_matmul(rt, matmul[10], d_up_out, up_x, d_up_weight);
    parc_record(rt, PARC_COMPUTE, 14);
    parc_wait(rt, PARC_DATA, 14); /* after: d_up.weight */
    parc_reduce_scatter(rt, 8, AXIS_dp, 2, (ParcPart[]){
    if (layer >= 1) {
        const int64_t next = layer - 1;
        parc_all_gather(rt, 9, AXIS_dp, 2, (ParcPart[]){
        parc_record(rt, PARC_DATA, 15 + next % 2);
    parc_wait(rt, PARC_COMPUTE, 15 + layer % 2); /* after: down.weight.bf16.4 */
    parc_matmul(rt, matmul[11], d_large_x, down_weight_bf16, d_down_x);
    k04_small_gelu_grad(rt, y, d_up_out, up_out, d_down_x);
    parc_matmul(rt, matmul[12], d_large_x, y, d_down_weight);
    parc_matmul_with(rt, matmul[13], d_up_out, up_weight_bf16, d_small_x, NULL,
    parc_matmul(rt, matmul[14], d_up_out, up_x, d_up_weight);
    parc_record(rt, PARC_COMPUTE, 17);
    parc_wait(rt, PARC_DATA, 17); /* after: d_up.weight.3 */
    parc_reduce_scatter(rt, 10, AXIS_dp, 2, (ParcPart[]){
    parc_record(rt, PARC_DATA, 18);
    parc_record(rt, PARC_COMPUTE, 19);
    parc_wait(rt, PARC_DATA, 19); /* after: d_table.weight */
    parc_reduce_scatter(rt, 11, AXIS_dp, 1, (ParcPart[]){
    parc_record(rt, PARC_DATA, 20);
    parc_wait(rt, PARC_COMPUTE, 18); /* after: d_up.weight.7 */
    k05_sgd_small_up_weight(rt, sumsq, up_weight, up_weight_bf16_new,
    k06_sgd_small_down_weight(rt, sumsq_2, down_weight, down_weight_bf16_new,
    k07_sgd_large_up_weight(rt, sumsq, up_weight, up_weight_2_bf16_new,
    k08_sgd_large_down_weight(rt, sumsq_2, down_weight, down_weight_2_bf16_new,
    k09_sgd_head_weight(rt, sumsq, head_weight, head_weight_bf16_new,
    parc_wait(rt, PARC_COMPUTE, 20); /* after: d_table.weight.3 */
    k10_sgd_table_weight(rt, add, table_weight, table_weight_bf16_new,
    parc_record(rt, PARC_COMPUTE, 21);
    parc_wait(rt, PARC_DATA, 21); /* after: add.12 */
    parc_record(rt, PARC_DATA, 22);
    parc_wait(rt, PARC_COMPUTE, 22); /* after: add.3 */
    k11_sqrt(rt, grad_norm, add_2);
