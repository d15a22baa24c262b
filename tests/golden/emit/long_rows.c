            for (int b = 0; b < 10000; b += PARC_AHEAD) {
                parc_read_ahead(output_out_row + b, sizeof *output_out_row);
                const int end = b + PARC_AHEAD < 10000 ? b + PARC_AHEAD : 10000;
                #pragma omp simd reduction(max : r1_key)
                for (int j = b; j < end; j++) {
            #pragma omp simd reduction(+ : r4, r10)
            for (int j = 0; j < 10000; j++) {
            #pragma omp simd
            for (int j = 0; j < 10000; j++) {
            #pragma omp simd reduction(+ : r2)
            for (int j = 0; j < columns; j++) {
