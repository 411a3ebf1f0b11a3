/* In place of the server, for the page of `watch` without one: a run of 100 points; one of tables that
 * was stopped early, with a best; one that has no step yet; seven more of two points each. */
const series = (count, of, value) => [
    { at: 0, name: "train.training_loss", lower: true,
      points: Array.from({ length: count }, (_, i) => [10 * (i + 1), 1000 + i, of(i)]) },
    { at: 1, name: value, lower: false,
      points: Array.from({ length: count }, (_, i) => [10 * (i + 1), 1000 + i, (i - 50) / 1e4]) }];
const more = [3, 4, 5, 6, 7, 8, 9].map(id => ({
    id, generation: 1, name: "m" + id, kind: "translation", state: "done", step: 20, steps: 20, points: 4,
    seconds: 10, last: 20 + id }));
const canned = {
    "api/runs": { directory: "runs", now: 0, runs: [
        { id: 0, generation: 1, name: "a", kind: "translation", state: "running", step: 1000, steps: 2000,
          points: 200, seconds: 100, last: 1100 },
        { id: 1, generation: 1, name: "early", kind: "tabular", state: "done", step: 30, steps: 960, points: 6,
          seconds: 3, last: 1050, best: { series: "validation.validation_auc", metric: "validation_auc",
                                          value: 0.9, step: 20, lower: false } },
        { id: 2, generation: 1, name: "waits", kind: "tabular", state: "", step: -1, steps: 0, points: 0,
          seconds: null, last: null }] },
    "api/points": { more: false, runs: [
        { id: 0, generation: 1, series: series(100, i => 8 * 0.95 ** i, "train.learning_rate") },
        { id: 1, generation: 1, series: [
            { at: 0, name: "train.training_loss", lower: true, points: [[10, 1, 3], [20, 2, 1], [30, 3, 2]] },
            { at: 1, name: "validation.validation_auc", lower: false,
              points: [[10, 1, 0.5], [20, 2, 0.9], [30, 3, 0.7]] }] }] },
    "api/run?id=0": { settings: { runtime: { seed: 1 }, same: "x" } },
    "api/run?id=1": { settings: { runtime: { seed: 2 }, same: "x" } },
    "api/run?id=2": { settings: { runtime: { seed: 2 }, same: "x" } },
};
for (const { id } of more) {
    canned["api/points"].runs.push({ id, generation: 1, series: series(2, i => i + id, "train.learning_rate") });
    canned["api/run?id=" + id] = { settings: { runtime: { seed: id }, same: "x" } };
}
/* Quantiles, two targets, and a run at work without values, with names that begin alike. */
const late = ["a-long-name-of-a-run-of-quantiles-with-seed-1", "a-long-name-of-a-run-of-quantiles-with-seed-2"].map((name, i) => ({
    id: 20 + i, generation: 1, name, kind: "tabular", state: i ? "running" : "done", step: i ? 0 : 20, steps: 20000000,
    points: i ? 0 : 10, first: 5000000, seconds: 1, last: 2000 }));
const curves = ["price.q0.1.validation_below", "price.q0.9.validation_below", "q0.5.validation_below",
                "price.validation_rmse", "days.validation_rmse"];
canned["api/points"].runs.push({ id: 20, generation: 1, series: curves.map((name, at) => (
    { at, name: "validation." + name, lower: true, points: [[10, 1, at], [20, 2, at + 1]] })) });
for (const { id } of late)
    canned["api/run?id=" + id] = { settings: { runtime: { seed: 1 }, same: "x" } };
/* Points of the runs that are asked for, and of which one has none yet. */
function answer(path, body) {
    const all = structuredClone(canned[path]);
    if (path !== "api/points")
        return all;
    const wanted = JSON.parse(body).runs;
    all.runs = wanted.map(w => ({ id: w.id, generation: 1, series: w.have.length ? []
        : (all.runs.find(r => r.id === w.id) || { series: [] }).series }));
    return all;
}
window.fetch = async (path, { body } = {}) => ({
    ok: true, json: async () => answer(path, body), text: async () => "" });
