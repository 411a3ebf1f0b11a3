#include "command/training/pace.h"

#include <math.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/flag.h"
#include "engine/comm/together.h"
#include "train/step/trainer.h"

#define MEASURED   3.0 /* seconds */
#define STEPS_MOST 100

/* Where there is time for more, the first step does not count. */
int et_pace_measure(et_pace *pace, et_trainer *trainer, et_comm *comm, int64_t most,
                    const volatile sig_atomic_t *stop, et_error *error)
{
    et_assert(pace && trainer && stop && most >= 0);
    et_trainer_view view = { .unit = NULL };
    int status = trainer->class->loop_begin(trainer, error);
    double start = et_clock_monotonic(), units = 0;
    int64_t timed = 0;
    bool more = true;
    for (int64_t i = 0; !status && more; i++) {
        double now = et_clock_monotonic();
        bool ends = i > STEPS_MOST || i >= most || (timed && now - start > MEASURED);
        /* All ranks agree how long that goes on and whether it was interrupted; rank 0 looks at the
         * clock. */
        status = et_flag_is_set(stop)
                     ? et_fail(error, ET_EINTERRUPTED, "interrupted before anything started")
                     : ET_OK;
        status = et_together_decide(comm, status, &ends, error);
        more = !status && !ends;
        if (!more)
            break;
        if (i == 1) {
            start = now;
            units = 0;
            timed = 0;
        }
        status = et_trainer_step(trainer, error);
        trainer->class->view(trainer, &view);
        units += (double)view.units;
        timed++;
    }
    double seconds = et_clock_monotonic() - start;
    *pace = (et_pace){ .seconds = timed ? seconds / (double)timed : NAN,
                       .units = timed && seconds > 0 ? units / seconds : NAN,
                       .unit = view.unit };
    return status;
}
