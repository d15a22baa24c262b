/* compare.h: declares `parc compare`, which prints what differs between two plans. */
#ifndef PARC_DRIVER_COMPARE_H
#define PARC_DRIVER_COMPARE_H

/* argv[0] is "compare". Returns the exit status of parc. */
int compare_main(int argc, char **argv);

#endif
