    float *x = (float *)(A + AT_in);
    float *y = (float *)(A + AT_in);
    float *z = (float *)(A + AT_s + layer * 2048);
    k00_square(rt, y, z, x);
    float *r = (float *)(A + AT_in);
    float *loss = (float *)(A + AT_loss);
#define AT_in INT64_C(38912)
#define AT_s INT64_C(0)
#define AT_loss INT64_C(40960)
#define AT_loss_2 INT64_C(0)
