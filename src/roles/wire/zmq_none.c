/* The transport in a build without ZeroMQ: always an error. */
#include "roles/wire/wire.h"

static int none(et_error *error)
{
    return et_fail(error, ET_EUSAGE,
                   "this build has no ZeroMQ, which training with master, workers and parameter "
                   "servers needs: install libzmq3-dev and build again");
}

int et_wire_open(et_wire **out, const et_wire_setup *setup, et_error *error)
{
    (void)setup;
    *out = NULL;
    return none(error);
}

void et_wire_close(et_wire *wire)
{
    (void)wire;
}

et_link *et_wire_link(et_wire *wire)
{
    (void)wire;
    return NULL;
}

int et_wire_receive(et_wire *wire, double seconds, et_message *out, bool *got, et_error *error)
{
    (void)wire, (void)seconds, (void)out;
    *got = false;
    return none(error);
}

double et_wire_alone(const et_wire *wire, int task)
{
    (void)wire, (void)task;
    return 0;
}

int et_wire_check(et_error *error)
{
    return none(error);
}

int et_wire_keypair(char *public, char *secret, et_error *error)
{
    (void)public, (void)secret;
    return none(error);
}
