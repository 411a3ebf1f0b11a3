/* A network that learns whether a point lies in a disc: the program at the head of
 * <etude/model.h>.
 *
 *     cc hello.c -o hello $(pkg-config --cflags --libs etude)
 *     ./hello
 *
 * writes disc.safetensors and prints two scores. */
#include <stdio.h>

#include <etude/model.h>

static void build(et_scope *s, void *payload)
{
    et_node *h = et_relu(et_dense(et_in(s, "hidden"), et_batch_input(s, "x"), 32));
    h = et_dense(et_in(s, "logits"), h, 2);
    et_loss(s, "loss", et_softmax_loss(h, et_batch_input(s, "y"), 0), 1);
    et_output(s, "scores", et_softmax(h));
    (void)payload;
}

int main(void)
{
    static float x[1000][2], scores[1000][2];
    static int y[1000];
    for (int i = 0; i < 1000; i++) {
        x[i][0] = (float)(i % 40) / 20 - 1;
        x[i][1] = (float)(i / 40) / 12 - 1;
        y[i] = x[i][0] * x[i][0] + x[i][1] * x[i][1] < 0.5f;
    }
    et_error error = ET_ERROR_INIT;
    et_model *model = NULL;
    et_model_options options = { .x = et_shape_1(2), .y_type = ET_I32 };
    if (et_model_open(&model, build, NULL, &options, &error) ||
        et_model_fit_arrays(model, x, y, 1000, &(et_fit){ .epochs = 50 }, &error) ||
        et_model_save(model, "disc.safetensors", &error) ||
        et_model_predict(model, x, 1000, scores, &error))
        fprintf(stderr, "%s\n", error.text);
    else
        printf("inside: %.2f, outside: %.2f\n", scores[500][1], scores[0][1]);
    et_model_close(model);
    return error.status != 0;
}
