/* <etude/etude.hpp>: owners, exceptions with the library's messages, networks that are lambdas. */
#include <etude/etude.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>

static int failures;

static void check(bool good, const char *what, int line)
{
    if (!good)
        std::fprintf(stderr, "test_owners.cc:%d: not so: %s\n", line, what), failures++;
}
#define CHECK(...) check((__VA_ARGS__), #__VA_ARGS__, __LINE__)

/* The message of what work throws; "": nothing. */
template <class Work> static std::string thrown(Work work, int *status = nullptr)
{
    try {
        work();
    } catch (const etude::error &e) {
        if (status)
            *status = e.status;
        return e.what();
    } catch (const std::exception &e) {
        return std::string("std: ") + e.what();
    }
    return "";
}

static bool holds(const std::string &text, const char *part)
{
    return text.find(part) != std::string::npos;
}

/* ---- a network ---- */

enum { POINTS = 1000 };
static float x[POINTS][2];
static int y[POINTS];

static et_model_options disc_options()
{
    et_model_options options{};
    options.x = et_shape_1(2);
    options.y_type = ET_I32;
    options.optimizer.learning_rate = 0.01;
    return options;
}

static void add_disc(et_scope *s, int64_t units)
{
    et_node *h = et_relu(et_dense(et_in(s, "hidden"), et_batch_input(s, "x"), units));
    h = et_dense(et_in(s, "logits"), h, 2);
    et_loss(s, "loss", et_softmax_loss(h, et_batch_input(s, "y"), 0), 1);
    et_output(s, "scores", et_softmax(h));
}

static etude::model make_disc(int64_t units)
{
    return etude::model([units](et_scope *s) { add_disc(s, units); }, disc_options());
}

static void test_a_network()
{
    et_fit fit{};
    fit.epochs = 40;
    etude::model moved = make_disc(16), model(std::move(moved));
    CHECK(!moved.get() && model.get());
    model.fit(x, y, POINTS, fit); /* builds again, after it was moved */
    CHECK(model.evaluate(x, y, POINTS)["validation_accuracy"] > 0.9);
    std::vector<float> scores = model.predict(x, POINTS), one = model.predict(x[7], 1);
    CHECK(scores.size() == 2 * POINTS && one.size() == 2);
    CHECK(!std::memcmp(&scores[14], one.data(), 2 * sizeof(float)));
    model.call(et_model_save, "owners.safetensors");
    etude::model other = make_disc(16);
    other.call(et_model_load, "owners.safetensors");
    CHECK(other.predict(x, POINTS) == scores);
    other = std::move(model); /* the former one is closed */
    CHECK(other.predict(x, POINTS) == scores);
    std::remove("owners.safetensors");
}

/* ---- what fails ---- */

static void test_messages()
{
    int status = 0;
    std::string text = thrown([] { make_disc(16).call(et_freeze, "encoder/*"); }, &status);
    CHECK(status == ET_ECONFIG && holds(text, "encoder/*"));
    text = thrown([] { etude::table("nowhere.csv", "income"); }, &status);
    CHECK(status == ET_ENOTFOUND && holds(text, "nowhere.csv"));
    text = thrown([] { etude::model("nowhere.safetensors"); });
    CHECK(holds(text, "nowhere.safetensors"));
    text = thrown([] { make_disc(16).predict(x, -1); });
    CHECK(holds(text, "-1 samples"));
    text = thrown([] { make_disc(16).predict(nullptr, 1); });
    CHECK(holds(text, "x is NULL"));
    text = thrown([] { make_disc(-3); }, &status);
    CHECK(status == ET_EGRAPH && holds(text, "-3"));
}

static void test_an_exception_of_the_function_that_builds()
{
    const et_model_options options = disc_options();
    std::string text = thrown(
        [&] { etude::model([](et_scope *) { throw std::out_of_range("at open"); }, options); });
    CHECK(text == "std: at open");
    bool fails = false;
    etude::model model(
        [&fails](et_scope *s) {
            add_disc(s, 16);
            if (fails) /* when all that is needed is there */
                throw std::out_of_range("at fit");
        },
        options);
    fails = true;
    text = thrown([&] { model.fit(x, y, POINTS); });
    CHECK(text == "std: at fit");
    CHECK(thrown([&] { model.predict(x, 1); }).empty()); /* it is thrown once */
}

/* ---- owners ---- */

static_assert(!std::is_copy_constructible<etude::model>::value, "a model has one owner");
static_assert(!std::is_copy_constructible<etude::table>::value, "a table has one owner");
static_assert(std::is_nothrow_move_constructible<etude::model>::value, "a model is moved");
static_assert(sizeof(etude::source) == sizeof(et_source *), "an owner is a pointer");

static void test_any_object()
{
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(2) },
                                { "y", ET_I32, y, et_shape_scalar() } };
    et_batches_options options{};
    options.repeat = true;
    options.capacity[0] = 32;
    et_samples *samples;
    etude::call(et_arrays_open, &samples, arrays, 2, static_cast<int64_t>(POINTS));
    etude::source batches;
    etude::open(batches, et_batches_open, samples, &options);
    et_fit fit{};
    fit.steps = 3;
    etude::model model = make_disc(8);
    model.call(et_model_fit, batches.get(), &fit);
    CHECK(et_optimizer_iterations(et_model_optimizer(model.get())) == 3);
    etude::owner<et_translator, et_translator_close> none;
    const std::string text = thrown([&] { etude::open(none, et_translator_open, "x", nullptr); });
    CHECK(!none && holds(text, "x"));
}

static void test_a_table()
{
    FILE *file = std::fopen("owners.csv", "w");
    std::fprintf(file, "age,job,income\n");
    for (int i = 0; i < 400; i++)
        std::fprintf(file, "%d,job%d,%s\n", 18 + i * 37 % 50, i % 3,
                     i * 37 % 50 > 25 ? "high" : "low");
    std::fclose(file);
    etude::table people("owners.csv", "income");
    etude::model model(people, "mlp", "task.model.mlp.width=16");
    et_fit fit{};
    fit.epochs = 10;
    model.fit(people, fit);
    CHECK(model.evaluate()["validation_accuracy"] > 0.8); /* of the held-out rows */
    CHECK(holds(thrown([&] { model.predict(x, 1); }), "et_model_predict_csv"));
    model.call(et_model_save, "owners.safetensors");
    etude::model saved("owners.safetensors");
    FILE *lines = std::tmpfile();
    saved.call(et_model_predict_csv, "owners.csv", lines);
    CHECK(std::ftell(lines) > 400 * 20);
    std::fclose(lines);
    std::remove("owners.csv");
    std::remove("owners.safetensors");
}

int main()
{
    for (int i = 0; i < POINTS; i++) {
        x[i][0] = static_cast<float>(i % 40) / 20 - 1;
        x[i][1] = static_cast<float>(i / 40) / 12 - 1;
        y[i] = x[i][0] * x[i][0] + x[i][1] * x[i][1] < 0.5f;
    }
    test_a_network();
    test_messages();
    test_an_exception_of_the_function_that_builds();
    test_any_object();
    test_a_table();
    return failures != 0;
}
