#include "roles/wire/message.h"

#include <string.h>

#include "base/files/checksum.h"

#define MAGIC     0x31637465u /* "etc1" */
#define CHECKED   80          /* bytes of a header before its checksum */
#define PAUSE_MAX 16.0

/* Layout: magic 0, kind 4, from 8, (zero) 12, run 16, session 24, sequence 32, number 40, extra 48,
 * value 56, size 72, checksum 80. The checksum covers the bytes before it and the body. */
static uint64_t checksum_of(const unsigned char *header, const void *bytes, size_t size)
{
    uint64_t both[2] = { et_checksum(header, CHECKED), size ? et_checksum(bytes, size) : 0 };
    return et_checksum(both, sizeof both);
}

void et_message_write(const et_message *message, unsigned char *header)
{
    uint32_t words[4] = { MAGIC, (uint32_t)message->kind, (uint32_t)message->from, 0 };
    uint64_t size = message->size;
    memcpy(header, words, sizeof words);
    memcpy(header + 16, &message->run, 8);
    memcpy(header + 24, &message->session, 8);
    memcpy(header + 32, &message->sequence, 8);
    memcpy(header + 40, &message->number, 8);
    memcpy(header + 48, &message->extra, 8);
    memcpy(header + 56, message->value, 16);
    memcpy(header + 72, &size, 8);
    uint64_t checksum = checksum_of(header, message->bytes, message->size);
    memcpy(header + CHECKED, &checksum, 8);
}

bool et_message_read(et_message *out, const void *data, size_t size)
{
    const unsigned char *header = data;
    uint32_t words[4];
    uint64_t length, checksum;
    if (size < ET_MESSAGE_HEADER)
        return false;
    memcpy(words, header, sizeof words);
    memcpy(&length, header + 72, 8);
    memcpy(&checksum, header + CHECKED, 8);
    if (words[0] != MAGIC || words[1] == 0 || words[1] >= ET_MESSAGE_KINDS ||
        words[2] >= ET_TASKS_MAX || words[3] || length != size - ET_MESSAGE_HEADER)
        return false;
    *out = (et_message){ .kind = (et_message_kind)words[1],
                         .from = (int)words[2],
                         .bytes = header + ET_MESSAGE_HEADER,
                         .size = (size_t)length };
    if (checksum_of(header, out->bytes, out->size) != checksum)
        return false;
    memcpy(&out->run, header + 16, 8);
    memcpy(&out->session, header + 24, 8);
    memcpy(&out->sequence, header + 32, 8);
    memcpy(&out->number, header + 40, 8);
    memcpy(&out->extra, header + 48, 8);
    memcpy(out->value, header + 56, 16);
    return true;
}

void et_link_send(et_link *link, int to, const et_message *message)
{
    link->class->send(link, to, message);
}

void et_link_answer(et_link *link, const et_message *question, et_message answer)
{
    answer.sequence = question->sequence;
    answer.via = question->via;
    et_link_send(link, question->from, &answer);
}

void et_link_refuse(et_link *link, const et_message *question, int from, int status,
                    const char *why)
{
    size_t size = strnlen(why, ET_MESSAGE_TEXT);
    et_message answer = { .kind = ET_MESSAGE_REFUSED,
                          .from = from,
                          .run = question->run,
                          .session = question->session,
                          .number = status,
                          .bytes = why,
                          .size = size };
    et_link_answer(link, question, answer);
}

int et_refusal_status(const et_message *refusal)
{
    return refusal->number == ET_EDIVERGED ? ET_EDIVERGED : ET_EIO;
}

void et_asking_begin(et_asking *asking, et_link *link, double now, int to,
                     const et_message *message)
{
    *asking = (et_asking){ .to = to,
                           .waiting = true,
                           .message = *message,
                           .begun = now,
                           .again = now + ET_ASKING_PAUSE,
                           .pause = ET_ASKING_PAUSE };
    et_link_send(link, to, message);
}

void et_asking_tick(et_asking *asking, et_link *link, double now)
{
    if (!asking->waiting || now < asking->again)
        return;
    if (asking->pause > ET_ASKING_PAUSE && link->class->doubt)
        link->class->doubt(link, asking->to);
    asking->pause = asking->pause * 2 < PAUSE_MAX ? asking->pause * 2 : PAUSE_MAX;
    asking->again = now + asking->pause;
    et_link_send(link, asking->to, &asking->message);
}

bool et_asking_takes(et_asking *asking, const et_message *message)
{
    if (!asking->waiting || message->from != asking->to ||
        message->sequence != asking->message.sequence)
        return false;
    asking->waiting = false;
    return true;
}
