    parc_record(rt, PARC_COMPUTE, 0);
    forward_Net(rt);
    for (int64_t layer = 0; layer <= 3; layer++) {
    forward_Net_2(rt);
    for (int64_t layer = 3; layer >= 0; layer--) {
    forward(rt);
    for (int i = 0; i < 7; i++)
        parc_wait(rt, PARC_DATA, 0); /* after: step start */
        parc_all_gather(rt, 0, AXIS_dp, 3, (ParcPart[]){
        parc_record(rt, PARC_DATA, 1 + layer % 2);
        parc_wait(rt, PARC_DATA, 5); /* after: read of down.weight.4 */
        parc_all_gather(rt, 0, AXIS_dp, 3, (ParcPart[]){
        parc_record(rt, PARC_DATA, 1 + next % 2);
    parc_wait(rt, PARC_COMPUTE, 1 + layer % 2); /* after: norm.weight.4 */
    k00_norm(rt, norm_out, x, norm_weight);
    parc_record(rt, PARC_COMPUTE, 3);
    parc_wait(rt, PARC_TENSOR, 3); /* after: norm_out */
    parc_all_gather(rt, 1, AXIS_tp, 1, (ParcPart[]){
    parc_record(rt, PARC_TENSOR, 4);
    parc_wait(rt, PARC_COMPUTE, 4); /* after: up_x */
    parc_matmul(rt, matmul[0], up_x, up_weight, up_out);
    k01_layers_gelu(rt, y, up_out);
    parc_matmul(rt, matmul[1], y, down_weight, down_out);
    parc_record(rt, PARC_COMPUTE, 5);
    parc_wait(rt, PARC_TENSOR, 5); /* after: down_out */
    parc_reduce_scatter(rt, 2, AXIS_tp, 1, (ParcPart[]){
    parc_record(rt, PARC_TENSOR, 6);
    parc_wait(rt, PARC_COMPUTE, 6); /* after: down_out.2 */
    k02_layers_add(rt, add, x, down_out_2);
        parc_wait(rt, PARC_DATA, 6); /* after: read of down_out */
        parc_all_gather(rt, 5, AXIS_dp, 3, (ParcPart[]){
        parc_record(rt, PARC_DATA, 7 + layer % 2);
    k03_mul_sum_scale(rt, scale, x);
    parc_record(rt, PARC_COMPUTE, 9);
    parc_wait(rt, PARC_TENSOR, 9); /* after: scale.4 */
    k04_scale_mul_grad(rt, d_x, x);
    parc_record(rt, PARC_COMPUTE, 10);
        parc_wait(rt, PARC_TENSOR, 10);
    parc_wait(rt, PARC_TENSOR, 16); /* after: d_layers_x */
    parc_all_gather(rt, 4, AXIS_tp, 1, (ParcPart[]){
    parc_record(rt, PARC_TENSOR, 11);
        parc_all_gather(rt, 5, AXIS_dp, 3, (ParcPart[]){
        parc_record(rt, PARC_DATA, 7 + next % 2);
    parc_wait(rt, PARC_COMPUTE, 7 + layer % 2); /* after: norm.weight.5 */
    k05_norm_grad(rt, rsqrt, norm_out, mul, norm_x, norm_weight);
    parc_record(rt, PARC_COMPUTE, 12);
    parc_wait(rt, PARC_TENSOR, 12); /* after: norm_out.2 */
    parc_all_gather(rt, 6, AXIS_tp, 1, (ParcPart[]){
    parc_record(rt, PARC_TENSOR, 13);
    parc_wait(rt, PARC_COMPUTE, 11); /* after: d_x.4 */
    parc_matmul(rt, matmul[2], d_x, down_weight, d_down_x);
    parc_wait(rt, PARC_COMPUTE, 13); /* after: up_x.4 */
    parc_matmul(rt, matmul[3], up_x, up_weight, up_out);
    k06_layers_gelu_grad(rt, y, d_up_out, up_out, d_down_x);
    parc_matmul(rt, matmul[4], d_x, y, d_down_weight);
    parc_matmul(rt, matmul[5], d_up_out, up_weight, d_up_x);
    parc_record(rt, PARC_COMPUTE, 14);
    parc_wait(rt, PARC_TENSOR, 14); /* after: d_up_x */
    parc_reduce_scatter(rt, 7, AXIS_tp, 1, (ParcPart[]){
    parc_record(rt, PARC_TENSOR, 15);
    parc_matmul(rt, matmul[6], d_up_out, up_x, d_up_weight);
    parc_wait(rt, PARC_COMPUTE, 15); /* after: d_up_x.2 */
    k07_norm_grad_2(rt, d_norm_weight, d_layers_x, d_up_x_2, norm_weight,
    parc_record(rt, PARC_COMPUTE, 16);
    parc_wait(rt, PARC_DATA, 16); /* after: d_norm.weight */
    parc_reduce_scatter(rt, 8, AXIS_dp, 3, (ParcPart[]){
    parc_record(rt, PARC_DATA, 17);
    parc_wait(rt, PARC_TENSOR, 17); /* after: d_norm.weight.5 */
    parc_record(rt, PARC_TENSOR, 18);
    parc_wait(rt, PARC_COMPUTE, 18); /* after: d_norm.weight.4 */
    k08_sumsq(rt, sumsq, d_norm_weight);
    k09_sgd_layers_norm_weight(rt, norm_weight, d_norm_weight, lr, norm_weight);
    k10_sgd_layers_down_weight(rt, sumsq_2, down_weight, d_down_weight, lr,
    k11_sgd_layers_up_weight(rt, add, up_weight, d_up_weight, sumsq_3, sumsq_2,
    parc_record(rt, PARC_COMPUTE, 19);
    parc_wait(rt, PARC_TENSOR, 19); /* after: add.6 */
    parc_record(rt, PARC_TENSOR, 20);
    parc_wait(rt, PARC_COMPUTE, 20); /* after: add.2 */
    k12_sqrt(rt, grad_norm, add_2);
    for (int e = 0; e < 4; e++) {
    for (int e = 0; e < 4; e++) {
    for (int at = thread_index(); at < 2048; at += 512) {
    for (int e = 0; e < 4; e++) {
    for (int e = 0; e < 4; e++) {
    for (int e = 0; e < 2; e++)
    for (int64_t i0 = group; i0 < 128; i0 += 8) {
    for (int u = thread_index(); u < 64; u += 256) {
    for (int e = 0; e < 4; e++) {
    for (int at = (int)part * 512 + thread_index(); at < 4096; at += 1024) {
    for (int part = lane_index(); part < 2; part += 32)
    for (int at = (int)part * 512 + thread_index(); at < 4096; at += 1024) {
    for (int part = lane_index(); part < 2; part += 32)
