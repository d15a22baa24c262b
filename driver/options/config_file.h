/* config_file.h: declares the function that reads the config.json of --config. */
#ifndef PARC_DRIVER_CONFIG_FILE_H
#define PARC_DRIVER_CONFIG_FILE_H

#include "driver/options/options.h"
#include "frontend/frontend.h"

/* Reads a config.json of Hugging Face, or that of a directory; NULL after an error. */
const ConfigFile *config_file_read(Arena *a, Diag *d, const Argument *path);

#endif
