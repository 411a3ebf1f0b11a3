/* Words of scikit-learn, LightGBM, AutoGluon, Keras, Lightning, Hugging Face, Marian, fairseq and
 * others. A word that means exactly one option or setting is accepted as this option (SAME). Any
 * other word is refused with a cure (CURE). A command's own names have priority, so a row may list
 * words that are options of another command. */
#include "command/options/options.h"

#define SAME(commands_, option_, words_)                                                           \
    {                                                                                              \
        .of = ET_SYNONYM_OPTION, .commands = (commands_), .same = (option_), .words = (words_)     \
    }
#define CURE(commands_, words_, text_)                                                             \
    {                                                                                              \
        .of = ET_SYNONYM_OPTION, .commands = (commands_), .words = (words_), .text = (text_)       \
    }
#define COMMAND(words_, text_)                                                                     \
    {                                                                                              \
        .of = ET_SYNONYM_COMMAND, .words = (words_), .text = (text_)                               \
    }
#define EXPERIMENT(words_, text_)                                                                  \
    {                                                                                              \
        .of = ET_SYNONYM_EXPERIMENT, .words = (words_), .text = (text_)                            \
    }

#define TRAIN  "train tune"
#define O      "trainer.optimizer_config."
#define NO_GPU "Etude does not use a GPU"

const et_synonym et_synonyms[] = {
    /* ---- data and columns ---- */
    SAME(TRAIN, "data",
         "train-sets train-set train-data training-data train-file train-files train-path input "
         "inputs-file input-data dataset data-file data-path csv table trainset"),
    SAME(TRAIN, "valid",
         "val validation valid-file valid-data val-data val-file val-path validation-data "
         "validation-file valid-set valid-sets eval-data eval-file dev dev-data dev-set validset"),
    SAME(TRAIN, "held-out",
         "test-size valid-size val-size validation-split val-split valid-split validation-fraction "
         "val-fraction valid-fraction holdout hold-out holdout-frac held-out-fraction split"),
    SAME(TRAIN, "folds",
         "cv kfold k-fold kfolds k-folds fold n-folds num-folds nfold nfolds n-splits num-splits "
         "cross-validation cross-validate num-bag-folds"),
    SAME(TRAIN " data", "target",
         "label labels label-column label-col label-name target-column target-col target-name "
         "targets response outcome y class-column dependent predict-column"),
    SAME(TRAIN " data", "drop",
         "ignore exclude drop-columns drop-column drop-cols ignore-columns ignore-column "
         "ignored-columns ignore-cols exclude-columns exclude-column exclude-cols"),
    SAME(TRAIN " data", "drop",
         "ignored-features ignore-features exclude-features drop-features without"),
    SAME(TRAIN " data", "features",
         "feature feature-columns feature-cols feature-names columns use-columns usecols "
         "input-columns x include include-columns only keep-columns inputs"),
    SAME(TRAIN, "group", "groups group-column group-col group-by groupby"),
    SAME(TRAIN, "time",
         "time-column time-col date date-column date-col datetime timestamp timestamp-column"),
    SAME(TRAIN, "id", "id-column id-col index-col index-column key"),
    SAME(TRAIN, "weight",
         "weight-column weight-col sample-weight sample-weights sample-weight-column "
         "instance-weight row-weight"),
    SAME(NULL, "missing", "na-values na-value na missing-values missing-value null-values nulls"),
    SAME(NULL, "delimiter", "sep separator delim field-separator"),
    SAME(TRAIN, "class-weights", "class-weight weights-of-classes"),
    CURE(TRAIN, "balanced balance imbalanced oversample smote scale-pos-weight is-unbalance",
         "weight the classes with --class-weights balanced"),
    CURE(TRAIN, "test test-data test-file test-set test-sets testset test-path",
         "training does not read test data; evaluate afterwards: `etude evaluate RUN FILE`"),
    CURE(TRAIN,
         "src tgt source target-file source-file train-src train-tgt src-train tgt-train src-file "
         "tgt-file text texts trainpref source-path target-path",
         "name both files with --data SOURCE TARGET, or one table with --data FILE"),
    CURE(TRAIN, "validpref valid-src valid-tgt src-valid tgt-valid",
         "name both files with --valid SOURCE TARGET"),
    CURE(TRAIN, "testpref destdir preprocess tokenizer",
         "Etude prepares the text itself; name the files with --data SOURCE TARGET"),
    CURE(TRAIN, "source-lang target-lang src-lang tgt-lang source-language target-language lang",
         "training needs no codes of languages; name the files with --data SOURCE TARGET"),
    CURE(TRAIN, "stratify stratified",
         "folds and held-out rows always keep the classes' fractions; see --folds and --held-out"),
    CURE(TRAIN, "shuffle", "rows are always shuffled; --seed N chooses the order"),
    CURE(TRAIN, "regression classification problem-type task-type objective-type",
         "the target decides it; --set task.target_type=number or class chooses"),
    CURE(TRAIN, "normalize standardize scaler",
         "numbers are scaled by their columns; --set task.features.numeric=NAME chooses how"),
    CURE(TRAIN,
         "cat-features categorical categorical-feature categorical-features categorical-columns "
         "categorical-cols cat-cols cat-columns categories",
         "texts are categories; for categories that are numbers, write a features file with the "
         "transform one-hot (--set task.features_path=FILE)"),
    CURE("data", "describe stats profile", "use `etude data analyze FILE`"),

    /* ---- length and choice of the run ---- */
    SAME(TRAIN, "epochs",
         "max-epochs num-epochs n-epochs num-train-epochs nb-epochs nb-epoch epoch max-epoch "
         "after-epochs total-epochs train-epochs"),
    SAME(TRAIN, "steps",
         "max-steps num-steps n-steps train-steps total-steps max-update max-updates max-iter "
         "max-iters max-iterations iterations updates after-batches num-train-steps step"),
    CURE(TRAIN, "after", "use --epochs 10 for 10e, and --steps 10000 for 10000u"),
    SAME(TRAIN, "time-limit", "max-time time-budget timeout max-runtime max-runtime-secs"),
    CURE(TRAIN, "stop-time-hours", "use --time-limit 2h"),
    SAME(TRAIN, "patience",
         "early-stopping early-stopping-rounds early-stopping-patience early-stop "
         "early-stopping-round n-iter-no-change stopping-rounds"),
    SAME(TRAIN, "metric",
         "monitor eval-metric eval-metrics best-metric metric-for-best-model valid-metrics scoring "
         "early-stopping-metric best-checkpoint-metric metrics"),
    SAME(TRAIN, "model-dir",
         "save-dir out-dir outdir run-dir run logdir log-dir checkpoint-dir default-root-dir "
         "results-dir"),
    CURE(TRAIN, "output out save save-path model-file export",
         "--model-dir DIR keeps the run; then `etude export RUN --output FILE` writes one file"),
    SAME(TRAIN, "init",
         "init-from from pretrained pretrained-model finetune-from finetune-from-model warm-start "
         "init-model init-checkpoint restore restore-file load load-checkpoint from-pretrained"),
    SAME(NULL, "seed", "random-seed random-state manual-seed rng-seed"),
    SAME(NULL, "threads",
         "n-jobs num-threads nthread nthreads cpu-threads num-cpus n-threads jobs cores cpus "
         "num-cpu"),
    SAME(NULL, "quiet", "silent"),
    SAME("train", "dry-run", "fast-dev-run smoke-test"),
    SAME(NULL, "config", "config-path cfg conf params hparams config-name"),
    CURE(TRAIN, "resume resume-from-checkpoint continue resume-from",
         "an existing run is resumed automatically; name its RUN"),
    CURE(TRAIN, "overwrite force overwrite-output-dir overwrite-model",
         "a run is never overwritten; name another RUN, or remove the old one"),
    CURE(TRAIN,
         "model model-name model-type arch architecture algorithm algo estimator type booster "
         "learner task-name",
         "--experiment NAME chooses the model (`etude list` shows all), --model-dir DIR the "
         "directory of the run"),
    CURE(TRAIN, "preset presets quality hyperparameters",
         "Etude has no presets: --experiment tabular/auto tries several models, and --time-limit "
         "TIME gives it more time"),
    CURE(TRAIN,
         "n-estimators num-boost-round num-leaves max-depth num-trees min-child-weight subsample "
         "colsample-bytree boosting boosting-type num-iterations tree-method n-trees "
         "min-data-in-leaf num-round",
         "Etude trains neural networks, not trees; use --experiment tabular/auto"),
    CURE(NULL, "gpu gpus num-gpus cuda ngpus n-gpus use-gpu accelerator", NO_GPU),
    CURE(NULL, "device-ids devices", NO_GPU "; --threads N sets the number of threads"),
    CURE(TRAIN, "nproc nproc-per-node world-size num-nodes ranks num-processes",
         "`etude launch` starts several processes"),

    /* ---- optimizer ---- */
    SAME(TRAIN, "lr",
         "learning-rate learn-rate learning-rate-init base-lr initial-lr max-lr peak-lr eta "
         "initial-learning-rate"),
    SAME(TRAIN, "batch-size",
         "batch batchsize bs train-batch-size per-device-train-batch-size mini-batch-words "
         "max-tokens batch-tokens"),
    CURE(TRAIN, "mini-batch maxi-batch max-sentences mini-batch-fit workspace auto-batch-size",
         "--batch-size N is a number of tokens, or of a table's rows; --memory SIZE chooses the "
         "largest batch that fits"),
    SAME(TRAIN, "weight-decay", "wd weight-decay-rate l2 l2-regularization l2-reg"),
    SAME(TRAIN, "label-smoothing", "label-smooth smoothing label-smoothing-factor"),
    SAME(TRAIN, "dropout", "dropout-rate drop-rate p-dropout transformer-dropout"),
    SAME(TRAIN, "layers", "num-layers n-layers nlayers"),
    CURE(TRAIN, "optimizer optim optimiser opt",
         "use --set " O "optimizer.type=NAME, such as adamw or sgd"),
    CURE(TRAIN, "lr-scheduler scheduler lr-schedule lr-decay lr-scheduler-type lr-decay-inv-sqrt",
         "use --set " O "learning_rate.type=NAME, such as cosine or inverse_sqrt"),
    CURE(TRAIN, "warmup warmup-steps lr-warmup warmup-updates num-warmup-steps warmup-ratio",
         "use --set " O "warmup.linear.warmup_steps=N; the schedule inverse_sqrt has " O
         "learning_rate.inverse_sqrt.warmup_steps"),
    CURE(TRAIN,
         "clip-norm grad-clip gradient-clip-val max-grad-norm gradient-clip clip-grad-norm "
         "clipnorm clip",
         "use --set " O
         "optimizer.adam.global_clipnorm=X; replace adam by the name of your optimizer"),
    CURE(TRAIN, "betas beta1 beta2 adam-betas adam-beta1 adam-beta2 adam-eps optimizer-params",
         "use --set " O "optimizer.adam.beta_1=X (also beta_2 and epsilon); replace adam by the "
         "name of your optimizer"),
    CURE(TRAIN, "momentum", "use --set " O "optimizer.sgd.momentum=X"),
    CURE(TRAIN, "ema exponential-smoothing swa averaging",
         "use --set " O "ema.enabled=true, which evaluates a moving average of the weights"),
    SAME(TRAIN, "trainer.gradient_accumulation",
         "accumulate-grad-batches gradient-accumulation-steps update-freq optimizer-delay "
         "grad-accum accumulation-steps gradient-accumulation"),
    CURE(TRAIN, "objective criterion loss loss-function loss-fn",
         "the target decides it; for numbers, --set task.loss=NAME (squared, absolute, huber) or "
         "--quantiles P,... chooses"),

    /* ---- precision ---- */
    SAME(TRAIN, "runtime.mixed_precision_dtype=bfloat16", "bf16 bfloat16"),
    SAME(TRAIN, "runtime.mixed_precision_dtype=float32", "fp32 float32 no-amp"),
    CURE(TRAIN, "fp16 float16 half amp mixed-precision precision dtype",
         "training uses bfloat16 or float32, not float16; --set "
         "runtime.mixed_precision_dtype=bfloat16 or float32 chooses"),

    /* ---- when ---- */
    SAME(TRAIN, "trainer.validation_interval",
         "val-check-interval eval-steps valid-freq valid-every validation-interval eval-interval "
         "eval-every validate-every"),
    SAME(TRAIN, "trainer.checkpoint_interval",
         "save-steps save-freq save-every checkpoint-interval save-interval save-interval-updates"),
    SAME(TRAIN, "trainer.summary_interval",
         "log-every-n-steps logging-steps disp-freq log-interval log-every summary-interval"),
    SAME(TRAIN, "trainer.max_to_keep",
         "keep-last-epochs save-total-limit max-to-keep keep-checkpoints save-top-k keep-last "
         "keep-interval-updates"),
    CURE(TRAIN, "keep-best save-best restore-best-weights load-best-model-at-end",
         "the best checkpoint is always kept; --metric NAME chooses by which value"),
    CURE(TRAIN, "tensorboard tensorboard-logdir logger report-to wandb log log-file",
         "a run always writes events for TensorBoard and train.log; `etude watch` shows it"),

    /* ---- translation models ---- */
    SAME(TRAIN, "task.train_data.max_seq_length",
         "max-seq-length max-seq-len max-length max-len max-source-positions "
         "max-target-positions"),
    SAME(TRAIN, "task.model.embedding_width",
         "dim-emb embed-dim d-model encoder-embed-dim decoder-embed-dim embedding-dim"),
    SAME(TRAIN, "task.model.encoder.num_layers", "enc-depth encoder-layers"),
    SAME(TRAIN, "task.model.decoder.num_layers", "dec-depth decoder-layers"),
    CURE(TRAIN,
         "transformer-heads num-heads n-heads heads nhead encoder-attention-heads "
         "decoder-attention-heads",
         "use --set task.model.encoder.num_attention_heads=N and "
         "task.model.decoder.num_attention_heads=N"),
    CURE(TRAIN,
         "transformer-dim-ffn dim-ffn ffn-dim dim-feedforward encoder-ffn-embed-dim "
         "decoder-ffn-embed-dim",
         "use --set task.model.encoder.intermediate_size=N and "
         "task.model.decoder.intermediate_size=N"),
    SAME(TRAIN, "vocab-size", "vocabulary-size n-vocab joint-vocab-size"),
    CURE(TRAIN, "dim-vocabs src-vocab-size tgt-vocab-size",
         "use --vocab-size N for a shared vocabulary, or --vocab-sizes SOURCE TARGET"),
    CURE(TRAIN, "vocab vocab-file vocabulary spm sentencepiece-model bpe bpe-codes",
         "Etude trains the vocabulary; --set task.sentencepiece_model_path=FILE uses a shared one, "
         "--vocabs SOURCE TARGET two"),
    CURE(TRAIN,
         "tied-embeddings tied-embeddings-all share-all-embeddings joined-dictionary "
         "share-decoder-input-output-embed share-vocab",
         "languages share the vocabulary and the embeddings by default; "
         "--separate-vocabularies separates them"),

    /* ---- networks for tables ---- */
    CURE(TRAIN,
         "hidden-layers hidden-size hidden-dim hidden-units units width hidden-layer-sizes hidden",
         "use --layers N, and --set task.model.mlp.width=N (with the name of your model for mlp)"),
    CURE(TRAIN, "activation activation-fn",
         "use --set task.model.mlp.activation=NAME, with the name of your model for mlp"),
    CURE(TRAIN, "num-workers dataloader-workers workers-per-loader dataset-impl",
         "one thread reads data; use --threads N to set the number of threads that compute"),

    /* ---- using models ---- */
    SAME(NULL, "beam-size", "num-beams beam beams beamsize beam-width n-beams"),
    SAME(NULL, "n-best", "num-return-sequences num-hypotheses"),
    CURE(NULL, "length-penalty lenpen normalize",
         "--alpha A is the exponent of the length penalty ((5 + length) / 6)^A"),
    SAME(NULL, "sampling", "do-sample sample"),
    SAME(NULL, "max-length", "max-len max-new-tokens max-decode-length max-output-length"),
    SAME(NULL, "checkpoint", "ckpt ckpt-path checkpoint-path"),
    SAME("translate predict explain", "input",
         "src source src-file source-file infile in file data csv test test-data test-file "
         "input-file text-file"),
    SAME("evaluate", "data", "input input-file test test-data test-file file csv valid eval-data"),
    SAME(NULL, "output", "out outfile output-file dest destination o save-to write"),
    CURE("translate", "text texts sentence line string prompt",
         "translate reads lines: echo 'A dog runs.' | `etude translate RUN`, or --input FILE"),
    CURE("translate evaluate serve",
         "source-lang target-lang src-lang tgt-lang from to from-lang to-lang lang target-language",
         "a model translates between the languages of its training; `etude translate --tag TAG` "
         "chooses the target language of a multilingual model"),
    CURE("translate evaluate serve export", "int8 quantize quantization quantized",
         "use --precision int8"),
    CURE("predict", "proba prob probs probabilities predict-proba scores",
         "classes always come with their scores; --output-format csv writes them as columns"),
    CURE(NULL, "model models model-path run m",
         "name the run or the file of the model as the first word, or with --model-dir"),
    SAME("plot", "metric", "metrics value values y series"),
    SAME("runs", "sort", "order order-by sort-by"),
    SAME("serve", "listen", "bind address addr ip"),
    SAME("export", "format", "to target-format type"),
    SAME("explain", "partial", "pdp partial-dependence"),
    CURE("explain", "shap", "Etude permutes columns; --partial COLUMN shows the effect of one"),

    /* ---- commands ---- */
    COMMAND("fit learn", "`etude train` trains a model"),
    COMMAND("finetune fine-tune", "`etude train NEW --init RUN` continues with other data"),
    COMMAND("resume continue restart", "`etude train RUN` resumes an interrupted run"),
    COMMAND("cv crossval cross-validate kfold", "`etude train --folds K` trains K models"),
    COMMAND(
        "info show summary describe status view cat details",
        "`etude inspect RUN` shows a run, `etude report RUN` writes a page about it, and `etude "
        "data analyze FILE` shows a table"),
    COMMAND("test eval validate val validation benchmark",
            "`etude evaluate RUN` evaluates a trained model"),
    COMMAND("infer inference generate decode transform run apply use predict-proba",
            "`etude translate RUN` translates lines, `etude predict RUN FILE` predicts rows"),
    COMMAND("search hpo sweep optimize optimise hyperopt grid gridsearch random-search",
            "`etude tune` searches for better settings"),
    COMMAND("convert",
            "`etude import FOLDER` makes a run from a published model, `etude export RUN` writes "
            "files for other programs"),
    COMMAND(
        "download pull fetch get",
        "Etude downloads nothing; fetch a model with git clone, then use `etude import FOLDER`"),
    COMMAND("save deploy onnx quantize pack", "`etude export RUN --output FILE` writes a model"),
    COMMAND("load", "`etude import FOLDER` makes a run from a published model"),
    COMMAND("ls dir history log logs results leaderboard ranking",
            "`etude runs DIR` lists runs, `etude list` experiments"),
    COMMAND("rm delete del remove clean", "Etude deletes no run; remove its directory: rm -r RUN"),
    COMMAND("experiments models settings params config options",
            "`etude list` shows experiments, `etude list EXPERIMENT` settings"),
    COMMAND("web dashboard ui board tensorboard monitor", "`etude watch` shows runs in a browser"),
    COMMAND("server api", "`etude serve RUN` serves a model over HTTP"),
    COMMAND("analyze analyse profile stats eda explore head", "`etude data analyze FILE`"),
    COMMAND(
        "importance feature-importance feature-importances permutation-importance interpret shap",
        "`etude explain RUN` measures what predictions depend on"),
    COMMAND("curve curves chart graph draw", "`etude plot RUN` draws curves"),
    COMMAND("diff", "`etude compare RUN RUN` compares runs"),
    COMMAND("preprocess tokenize vocab vocabulary prepare build-vocab",
            "`etude train --data` prepares the data itself"),
    COMMAND("backtranslate back-translate backtranslation",
            "`etude augment` makes training data by back-translation"),
    COMMAND("bleu chrf sacrebleu", "`etude score` prints BLEU and chrF of translations"),
    COMMAND("avg swa average-checkpoints", "`etude average` averages checkpoints"),
    COMMAND("new create start", "`etude train` starts a run, `etude init` a file of settings"),

    /* ---- experiments ---- */
    EXPERIMENT("xgboost xgb lightgbm lgbm lgb catboost gbm gbdt gbt gradient-boosting "
               "gradientboosting hist-gradient-boosting random-forest randomforest rf extra-trees "
               "extratrees decision-tree tree trees cart adaboost boosting",
               "Etude has no trees; tabular/auto tries linear models and neural networks"),
    EXPERIMENT("svm svc svr knn nearest-neighbors naive-bayes gaussian-process gp",
               "Etude has no such model; tabular/auto tries linear models and neural networks"),
    EXPERIMENT("logistic logistic-regression linear-regression regression ridge lasso elastic-net "
               "glm logreg linreg",
               "use tabular/linear"),
    EXPERIMENT("nn neural-net neural-network dnn deep feedforward ffn mlp-classifier mlp-regressor "
               "mlpclassifier mlpregressor",
               "use tabular/mlp"),
    EXPERIMENT("ftt fttransformer ft-t", "use tabular/ft_transformer"),
    EXPERIMENT("tabnet saint node tabpfn autoint deepfm wide-and-deep widedeep dcn tab-transformer",
               "Etude does not have this network; use tabular/tabm, or tabular/auto, which tries "
               "several"),
    EXPERIMENT("automl autogluon best best-quality default", "use tabular/auto"),
    EXPERIMENT("timeseries time-series forecasting arima prophet",
               "use tabular/auto with `etude train --time COLUMN`"),
    EXPERIMENT("transformer", "use translation/auto for text, tabular/ft_transformer for tables"),
    EXPERIMENT("transformer-base transformer-wmt-en-de transformer-iwslt-de-en s2s rnn lstm gru "
               "seq2seq marian opus opus-mt nmt small",
               "use translation/auto, or translation/base"),
    EXPERIMENT("transformer-big transformer-wmt-en-de-big big", "use wmt_transformer/large"),
    EXPERIMENT("bert gpt gpt2 llama llm t5 mbart bart nllb m2m100 roberta",
               "Etude trains models for translation and for tables; see translation/auto"),
    { .of = ET_SYNONYM_NONE },
};
