/* view.h: declares copies between a layer of a parameter and the tensor of a
 * file that holds it in another layout: view.c. */
#ifndef PARC_CHECKPOINT_VIEW_H
#define PARC_CHECKPOINT_VIEW_H

#include "checkpoint/safetensors.h"
#include "parc_rt.h"

/* Reads n consecutive elements of a layer (row-major), from element `global`
 * on, as f32. `view` NULL: the tensor has the layout of the layer. */
void rt_view_read(float *to, const RtTensor *t, const ParcFileTensor *view,
                  int64_t global, int64_t n);
/* Writes a whole layer of n elements to its position in `tensor`, the tensor of
 * the file in f32. */
void rt_view_write(float *tensor, const ParcFileTensor *view,
                   const float *layer, int64_t n);

#endif
