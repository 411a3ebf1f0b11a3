/* Etude for C++17, over the C headers: owners that close what they hold, and exceptions with the
 * library's messages. You may mix both. Owners are moved, not copied; get() is borrowed. Threads:
 * as in the C headers. A callback of the C headers, such as et_fit.callback, must not throw.
 *
 *     etude::table people("people.csv", "income");
 *     etude::model model(people, "mlp");
 *     et_fit fit{};
 *     fit.epochs = 20;
 *     model.fit(people, fit);
 *     model.call(et_model_save, "income.safetensors");                      any function of models
 *     etude::owner<et_translator, et_translator_close> translator;          any other object
 *     etude::open(translator, et_translator_open, "runs/help", nullptr); */
#ifndef ETUDE_ETUDE_HPP
#define ETUDE_ETUDE_HPP

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <etude/etude.h>

namespace etude
{

struct error : std::runtime_error {
    explicit error(const et_error &from) : std::runtime_error(from.text), status(from.status)
    {
    }
    int status; /* an et_status */
};

/* Calls a function of the C headers whose last argument is an et_error; throws a failure. */
template <class... P, class... A> void call(int (*function)(P...), A &&...arguments)
{
    et_error failure = ET_ERROR_INIT;
    if (function(std::forward<A>(arguments)..., &failure))
        throw error(failure);
}

template <class T, void (*close)(T *)>
using owner = std::unique_ptr<T, std::integral_constant<void (*)(T *), close>>;
using source = owner<et_source, et_source_close>;

/* The same for a function whose first argument gets an object; out owns it. */
template <class T, class C, class... P, class... A>
void open(std::unique_ptr<T, C> &out, int (*function)(T **, P...), A &&...arguments)
{
    T *object = nullptr;
    call(function, &object, std::forward<A>(arguments)...);
    out.reset(object);
}

/* A CSV file (table.h). */
struct table : owner<et_table, et_table_close> {
    table(const std::string &path, const std::string &target, const char *settings = nullptr)
    {
        open(*this, et_table_open, path.c_str(), target.c_str(), settings);
    }
};

/* A network, a model for a table, or a trained model of tables, for prediction. */
struct model : owner<et_model, et_model_close> {
    /* build: what it throws comes out of the call that has built: this one, fit or evaluate. */
    explicit model(std::function<void(et_scope *)> build, const et_model_options &options = {})
        : network_(new network{ std::move(build), nullptr })
    {
        checked([&] { open(*this, et_model_open, add_network, network_.get(), &options); });
    }
    model(const table &rows, const std::string &name, const char *settings = nullptr)
    {
        open(*this, et_model_for_table, rows.get(), name.c_str(), settings);
    }
    explicit model(const std::string &path)
    {
        open(*this, et_model_open_saved, path.c_str());
    }
    /* Calls function(get(), arguments..., &error). */
    template <class... P, class... A> void call(int (*function)(P...), A &&...arguments) const
    {
        checked([&] { etude::call(function, get(), std::forward<A>(arguments)...); });
    }
    void fit(const void *x, const void *y, int64_t count, const et_fit &how = {})
    {
        call(et_model_fit_arrays, x, y, count, &how);
    }
    void fit(const table &rows, const et_fit &how = {})
    {
        call(et_model_fit, et_table_source(rows.get()), &how);
    }
    /* "validation_loss" and the others; without arguments of a table's held-out rows. */
    std::map<std::string, double> evaluate(const void *x = nullptr, const void *y = nullptr,
                                           int64_t count = 0) const
    {
        owner<et_arena, et_arena_free> arena(et_arena_new());
        std::map<std::string, double> found;
        et_value *logs = et_value_dict(arena.get());
        x ? call(et_model_evaluate, x, y, count, logs)
          : call(et_model_evaluate_source, nullptr, logs);
        for (const et_value *v = logs->first; v; v = v->next)
            if (v->kind == ET_VALUE_FLOAT)
                found[v->key] = v->real;
        return found;
    }
    /* [count, et_model_width] */
    std::vector<float> predict(const void *x, int64_t count) const
    {
        std::vector<float> out(static_cast<size_t>(count > 0 ? count * et_model_width(get()) : 1));
        call(et_model_predict, x, count, out.data());
        return out;
    }

  private:
    struct network {
        std::function<void(et_scope *)> build;
        std::exception_ptr thrown;
    };
    std::unique_ptr<network> network_; /* NULL: another kind */

    /* No exception passes through the library. */
    static void add_network(et_scope *scope, void *payload) noexcept
    {
        auto *self = static_cast<network *>(payload);
        try {
            self->build(scope);
        } catch (...) {
            self->thrown = std::current_exception();
        }
    }
    template <class Work> void checked(Work work) const
    {
        try {
            work();
        } catch (const error &) {
            if (!network_ || !network_->thrown)
                throw;
        }
        if (network_ && network_->thrown)
            std::rethrow_exception(std::exchange(network_->thrown, nullptr));
    }
};

} // namespace etude

#endif
