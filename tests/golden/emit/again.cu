static void init_constants(ParcRt *rt)
static void forward(ParcRt *rt)
    parc_record(rt, PARC_COMPUTE, 0);
        parc_wait(rt, PARC_DATA, 0); /* after: step start */
        parc_all_gather(rt, 0, AXIS_dp, 3, (ParcPart[]){
        parc_record(rt, PARC_DATA, 1 + layer % 2);
    for (int64_t layer = 0; layer <= 3; layer++) {
            parc_wait(rt, PARC_DATA, 5); /* after: read of down.weight.4 */
            parc_all_gather(rt, 0, AXIS_dp, 3, (ParcPart[]){
            parc_record(rt, PARC_DATA, 1 + next % 2);
        parc_wait(rt, PARC_COMPUTE, 1 + layer % 2); /* after: norm.weight.4 */
        k00_norm(rt, norm, x_4, norm_weight_4);
        parc_record(rt, PARC_COMPUTE, 3);
        parc_wait(rt, PARC_TENSOR, 3); /* after: norm */
        parc_all_gather(rt, 1, AXIS_tp, 1, (ParcPart[]){
        parc_record(rt, PARC_TENSOR, 4);
        parc_wait(rt, PARC_COMPUTE, 4); /* after: x.7 */
        parc_matmul(rt, matmul[0], x_7, up_weight_4, up);
        k01_layers_gelu(rt, y_2, up);
        parc_matmul(rt, matmul[1], y_2, down_weight_4, down);
        parc_record(rt, PARC_COMPUTE, 5);
        parc_wait(rt, PARC_TENSOR, 5); /* after: down */
        parc_reduce_scatter(rt, 2, AXIS_tp, 1, (ParcPart[]){
        parc_record(rt, PARC_TENSOR, 6);
        parc_wait(rt, PARC_COMPUTE, 6); /* after: down.2 */
        k02_layers_add(rt, add, x_4, down_2);
        parc_wait(rt, PARC_DATA, 6); /* after: read of down */
        parc_all_gather(rt, 5, AXIS_dp, 3, (ParcPart[]){
        parc_record(rt, PARC_DATA, 7 + layer_2 % 2);
    k03_mul_sum_scale(rt, scale_4, x_11);
    parc_record(rt, PARC_COMPUTE, 9);
    parc_wait(rt, PARC_TENSOR, 9); /* after: scale.4 */
static void backward(ParcRt *rt)
    k04_scale_mul_grad(rt, dx, x_11);
    parc_record(rt, PARC_COMPUTE, 10);
    for (int64_t layer_2 = 3; layer_2 >= 0; layer_2--) {
            parc_wait(rt, PARC_TENSOR, 10);
        parc_wait(rt, PARC_TENSOR, 16); /* after: dx.14 */
        parc_all_gather(rt, 4, AXIS_tp, 1, (ParcPart[]){
        parc_record(rt, PARC_TENSOR, 11);
            parc_all_gather(rt, 5, AXIS_dp, 3, (ParcPart[]){
            parc_record(rt, PARC_DATA, 7 + next_2 % 2);
        parc_wait(rt, PARC_COMPUTE, 7 + layer_2 % 2); /* after: norm.weight.5 */
        k05_norm_grad(rt, rsqrt_4, norm_2, mul_26, x_15, norm_weight_5);
        parc_record(rt, PARC_COMPUTE, 12);
        parc_wait(rt, PARC_TENSOR, 12); /* after: norm.2 */
        parc_all_gather(rt, 6, AXIS_tp, 1, (ParcPart[]){
        parc_record(rt, PARC_TENSOR, 13);
        parc_wait(rt, PARC_COMPUTE, 11); /* after: dx.4 */
        parc_matmul(rt, matmul[2], dx_4, down_weight_5, dx_5);
        parc_wait(rt, PARC_COMPUTE, 13); /* after: x.2 */
        parc_matmul(rt, matmul[3], x_2, up_weight_5, up_2);
        k06_layers_gelu_grad(rt, y, dup_3, up_2, dx_5);
        parc_matmul(rt, matmul[4], dx_4, y, ddown_weight);
        parc_matmul(rt, matmul[5], dup_3, up_weight_5, dx_7);
        parc_record(rt, PARC_COMPUTE, 14);
        parc_wait(rt, PARC_TENSOR, 14); /* after: dx.7 */
        parc_reduce_scatter(rt, 7, AXIS_tp, 1, (ParcPart[]){
        parc_record(rt, PARC_TENSOR, 15);
        parc_matmul(rt, matmul[6], dup_3, x_2, dup_weight);
        parc_wait(rt, PARC_COMPUTE, 15); /* after: dx.8 */
        k07_norm_grad_2(rt, dnorm_weight, dx_14, dx_8, norm_weight_5, x_15,
        parc_record(rt, PARC_COMPUTE, 16);
        parc_wait(rt, PARC_DATA, 16); /* after: dnorm.weight */
        parc_reduce_scatter(rt, 8, AXIS_dp, 3, (ParcPart[]){
        parc_record(rt, PARC_DATA, 17);
    parc_wait(rt, PARC_TENSOR, 17); /* after: dnorm.weight.5 */
    parc_record(rt, PARC_TENSOR, 18);
static void optimizer(ParcRt *rt)
    parc_wait(rt, PARC_COMPUTE, 18); /* after: dnorm.weight.4 */
    k08_sumsq(rt, sumsq, dnorm_weight_4);
    k09_sgd_layers_norm_weight(rt, norm_weight_new, dnorm_weight_4, lr,
    k10_sgd_layers_down_weight(rt, sumsq_3, down_weight_new, ddown_weight_2, lr,
    k11_sgd_layers_up_weight(rt, add_6, up_weight_new, dup_weight_2, sumsq_4,
    parc_record(rt, PARC_COMPUTE, 19);
    parc_wait(rt, PARC_TENSOR, 19); /* after: add.6 */
    parc_record(rt, PARC_TENSOR, 20);
    parc_wait(rt, PARC_COMPUTE, 20); /* after: add.2 */
    k12_sqrt(rt, grad_norm, add_2);
static void step(ParcRt *rt)
    forward(rt);
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
