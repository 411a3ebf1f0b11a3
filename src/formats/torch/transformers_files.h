/* Names of files in a folder of transformers, which exports write and imports read. */
#ifndef ETUDE_FORMATS_TORCH_TRANSFORMERS_FILES_H
#define ETUDE_FORMATS_TORCH_TRANSFORMERS_FILES_H

#define ET_TRANSFORMERS_CONFIG            "config.json"
#define ET_TRANSFORMERS_GENERATION        "generation_config.json"
#define ET_TRANSFORMERS_TOKENIZER         "tokenizer_config.json"
#define ET_TRANSFORMERS_VOCABULARY        "vocab.json"
#define ET_TRANSFORMERS_ADDED             "added_tokens.json"
#define ET_TRANSFORMERS_FAST_TOKENIZER    "tokenizer.json"
#define ET_TRANSFORMERS_TARGET_VOCABULARY "target_vocab.json"
#define ET_TRANSFORMERS_SOURCE_MODEL      "source.spm"
#define ET_TRANSFORMERS_TARGET_MODEL      "target.spm"

#endif
