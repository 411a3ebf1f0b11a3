# Warnings, one a line, each with its reason. The Makefile makes them errors (WERROR).
option(ETUDE_WERROR "Treat warnings as errors" OFF)
add_library(etude_warnings INTERFACE)
target_compile_options(etude_warnings INTERFACE
    -Wall
    -Wextra
    $<$<BOOL:${ETUDE_WERROR}>:-Werror>  # not where a user's compiler knows more warnings than ours
    -Wshadow                 # two things with one name mislead the reader
    -Wpointer-arith          # arithmetic on void * is not C
    -Wwrite-strings          # string literals are const
    -Wvla                    # the stack is not for sizes from outside
    -Wundef                  # a misspelt macro is not 0
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>   # () does not say what a function takes
    $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>  # an extern function stands in a header
    $<$<COMPILE_LANG_AND_ID:C,GNU>:-Wno-format-truncation>  # error texts are cut on purpose
    -ffp-contract=off        # fused products only where a kernel asks: equal bits everywhere
    -fno-semantic-interposition  # public functions may be inlined in their own file
)
# Not used: -Wconversion (index arithmetic would need too many casts), -Wpadded (not useful here).
if(ETUDE_SANITIZE)
    target_compile_options(etude_warnings INTERFACE
        -fsanitize=${ETUDE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    link_libraries(-fsanitize=${ETUDE_SANITIZE})
endif()
