#include <etude/epochs.h>

bool et_epochs_begin(et_epochs *self)
{
    if (self->inside || self->epoch_steps < 1)
        return false;
    self->inside = true;
    self->first = *self->step;
    self->epoch = self->first / self->epoch_steps;
    return true;
}

int et_epochs_end(et_epochs *self, bool *ended, et_error *error)
{
    *ended = false;
    if (self->epoch_steps < 1)
        return et_fail(error, ET_ECONFIG, "epoch_steps: %lld; give at least 1",
                       (long long)self->epoch_steps);
    if (!self->inside)
        return et_fail(error, ET_EUSAGE,
                       "the end of an epoch can only be requested within an epoch");
    *ended = *self->step / self->epoch_steps > self->epoch;
    self->inside = !*ended;
    return ET_OK;
}

int64_t et_epochs_batch_index(const et_epochs *self)
{
    return *self->step - self->first;
}

int64_t et_epochs_current(const et_epochs *self)
{
    return self->epoch;
}

static int save(const void *part, et_value *dict, et_error *error)
{
    const et_epochs *self = part;
    (void)error;
    et_value_set_bool(dict, "inside", self->inside);
    et_value_set_int(dict, "epoch", self->epoch);
    et_value_set_int(dict, "first", self->first);
    return ET_OK;
}

static int restore(void *part, const et_value *dict, et_error *error)
{
    et_epochs *self = part;
    int status;
    if ((status = et_value_read_bool(dict, "inside", &self->inside, error)) ||
        (status = et_value_read_int(dict, "epoch", &self->epoch, error)))
        return status;
    return et_value_read_int(dict, "first", &self->first, error);
}

const et_part_class et_epochs_part = { "epochs", save, restore };
