/* The table of words that people know from other tools (systems/modelgarden/synonyms.h). */
#ifndef ETUDE_COMMAND_OPTIONS_SYNONYMS_H
#define ETUDE_COMMAND_OPTIONS_SYNONYMS_H

#include "systems/modelgarden/synonyms.h"

extern const et_synonym et_synonyms[];

#endif
