/* calibrate.h: declares `parc calibrate`, which measures a machine file. */
#ifndef PARC_DRIVER_CALIBRATE_H
#define PARC_DRIVER_CALIBRATE_H

/* argv[0] is "calibrate". Returns the exit status of parc. */
int calibrate_main(int argc, char **argv);

#endif
