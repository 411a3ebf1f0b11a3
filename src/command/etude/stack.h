/* A stack that is large enough, whatever `ulimit -s` says. */
#ifndef ETUDE_COMMAND_ETUDE_STACK_H
#define ETUDE_COMMAND_ETUDE_STACK_H

/* work(argc, argv), on the caller's stack where that may grow to what is needed, else on another
 * thread's; OpenMP's threads get as much. */
int et_with_stack(int (*work)(int argc, char **argv), int argc, char **argv);

#endif
