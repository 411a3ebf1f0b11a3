// hello.c in C++17, with owners and exceptions (<etude/etude.hpp>): a network that learns whether a
// point lies in a disc. Its width is a variable that the lambda captures.
//
//     c++ -std=c++17 hello_cpp.cc -o hello_cpp $(pkg-config --cflags --libs etude)
//     ./hello_cpp
//
// writes disc.safetensors, and prints the accuracy and two scores: above 0.95, near 1, near 0.
#include <array>
#include <cstdio>
#include <vector>

#include <etude/etude.hpp>

static void train_and_predict(const std::vector<std::array<float, 2>> &x, const std::vector<int> &y)
{
    const auto count = static_cast<int64_t>(x.size());
    const int64_t width = 32;

    // Two numbers in, a label out.
    et_model_options options{};
    options.x = et_shape_1(2);
    options.y_type = ET_I32;
    etude::model model(
        [=](et_scope *s) {
            et_node *h = et_relu(et_dense(et_in(s, "hidden"), et_batch_input(s, "x"), width));
            h = et_dense(et_in(s, "logits"), h, 2);
            et_loss(s, "loss", et_softmax_loss(h, et_batch_input(s, "y"), 0), 1);
            et_output(s, "scores", et_softmax(h));
        },
        options);

    et_fit fit{};
    fit.epochs = 50;
    model.fit(x.data(), y.data(), count, fit);
    std::printf("accuracy: %.2f\n",
                model.evaluate(x.data(), y.data(), count)["validation_accuracy"]);

    // Any function of the C headers that takes a model.
    model.call(et_model_save, "disc.safetensors");

    const std::vector<float> scores = model.predict(x.data(), count); // [count, 2]
    std::printf("inside: %.2f, outside: %.2f\n", scores[2 * 500 + 1], scores[1]);
}

int main()
{
    std::vector<std::array<float, 2>> x(1000);
    std::vector<int> y(1000);
    for (int i = 0; i < 1000; i++) {
        const float a = static_cast<float>(i % 40) / 20 - 1,
                    b = static_cast<float>(i / 40) / 12 - 1;
        x[i] = { a, b };
        y[i] = a * a + b * b < 0.5f;
    }

    try {
        train_and_predict(x, y);
    } catch (const std::exception &failure) { // etude::error has the library's message
        std::fprintf(stderr, "%s\n", failure.what());
        return 1;
    }
    return 0;
}
