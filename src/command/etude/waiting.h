/* How long OpenMP's threads spin while they wait: a few microseconds, then they sleep. By default
 * GNU's spin for milliseconds, and a run beside any other work then takes ten times as long,
 * since threads wait for others that have no processor. A user's own setting stands. */
#ifndef ETUDE_COMMAND_ETUDE_WAITING_H
#define ETUDE_COMMAND_ETUDE_WAITING_H

/* First thing in main; argv as main got it. */
void et_shorten_waiting(char **argv);

#endif
