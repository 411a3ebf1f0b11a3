/* In place of the server, for the page of `watch` without one: a run of 100 points. */
const canned = {
    "api/runs": { directory: "runs", now: 0, runs: [
        { id: 0, generation: 1, name: "a", state: "running", step: 1000, steps: 2000, points: 200,
          seconds: 100, last: 1100 }] },
    "api/points": { more: false, runs: [{ id: 0, generation: 1, series: [
        { at: 0, name: "train.training_loss",
          points: Array.from({ length: 100 }, (_, i) => [10 * (i + 1), 1000 + i, 8 * 0.95 ** i]) },
        { at: 1, name: "train.learning_rate",
          points: Array.from({ length: 100 }, (_, i) => [10 * (i + 1), 1000 + i, (i - 50) / 1e4]) }] }] },
};
window.fetch = async path => ({ ok: true, json: async () => canned[path], text: async () => "" });
