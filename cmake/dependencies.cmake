# The libraries that Etude uses, each in one file of src/. `make setup` installs the Debian
# packages. To add one: a find line, a row in the list, its packages in tools/setup, its header in
# tools/check-layers.
#
# All targets are global, for projects that link the archive in another folder.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
add_library(etude_dependencies INTERFACE)
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
find_package(ZLIB REQUIRED)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET GLOBAL yaml-0.1)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET GLOBAL jansson)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET GLOBAL libxxhash)
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET GLOBAL libprotobuf-c)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET GLOBAL libutf8proc)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET GLOBAL libpcre2-8)
# Optional: AUTO uses SentencePiece if it is found. Without it commands that train a vocabulary, or
# encode or decode text, fail and say so.
set(ETUDE_SENTENCEPIECE AUTO CACHE STRING "Tokens by SentencePiece: AUTO, ON or OFF")
set_property(CACHE ETUDE_SENTENCEPIECE PROPERTY STRINGS AUTO ON OFF)
set(sentencepiece_libraries)
if(ETUDE_SENTENCEPIECE)
    # Its .pc file is not used: it requires .pc files that no package of Debian 13 installs.
    find_library(SENTENCEPIECE_LIBRARY sentencepiece)
    find_library(SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train)
    find_path(SENTENCEPIECE_INCLUDE sentencepiece_trainer.h)
    if(SENTENCEPIECE_LIBRARY AND SENTENCEPIECE_TRAIN_LIBRARY AND SENTENCEPIECE_INCLUDE)
        set(SENTENCEPIECE_FOUND TRUE)
        set(sentencepiece_libraries -lsentencepiece -lsentencepiece_train)
        target_include_directories(etude_dependencies SYSTEM INTERFACE ${SENTENCEPIECE_INCLUDE})
    elseif(ETUDE_SENTENCEPIECE STREQUAL AUTO)
        set(SENTENCEPIECE_FOUND FALSE)
        message(STATUS "SentencePiece not found: built without it (libsentencepiece-dev)")
    else()
        message(FATAL_ERROR "ETUDE_SENTENCEPIECE is ON, and SentencePiece is not there: install "
            "libsentencepiece-dev, or set it to OFF")
    endif()
else()
    set(SENTENCEPIECE_FOUND FALSE)
endif()
# Optional: a module for each MPI that is installed (src/engine/comm). On Debian both may be
# installed.
set(ETUDE_MPI AUTO CACHE STRING "Ranks by MPI: AUTO (each of Open MPI and MPICH that is there) or OFF")
set_property(CACHE ETUDE_MPI PROPERTY STRINGS AUTO OFF)
set(ETUDE_MPIS)
if(ETUDE_MPI)
    pkg_check_modules(MPI_openmpi QUIET IMPORTED_TARGET GLOBAL ompi-c)
    pkg_check_modules(MPI_mpich QUIET IMPORTED_TARGET GLOBAL mpich)
    foreach(mpi openmpi mpich)
        if(MPI_${mpi}_FOUND)
            list(APPEND ETUDE_MPIS ${mpi})
        endif()
    endforeach()
    if(NOT ETUDE_MPIS)
        message(STATUS "no MPI found: ranks on one machine alone (libopenmpi-dev, libmpich-dev)")
    endif()
endif()
# A prefix for commands of tests that need SentencePiece: skips them if it is missing.
set(needs_sentencepiece)
if(NOT SENTENCEPIECE_FOUND)
    set(needs_sentencepiece
        sh -c "echo 'SKIPPED: all cases: built without SentencePiece' && exit 77")
endif()
# etude_soname(VARIABLE FILE): the name that a shared library has for the dynamic loader.
function(etude_soname variable file)
    execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${file} OUTPUT_VARIABLE said ERROR_QUIET)
    if(NOT said MATCHES "SONAME +([^ \n]+)")
        message(FATAL_ERROR "${file} has no SONAME")
    endif()
    set(${variable} ${CMAKE_MATCH_1} PARENT_SCOPE)
endfunction()
# etude_optional(OPTION LIBRARY HEADER TITLE WITHOUT PACKAGE): an optional library. ETUDE_OPTION is
# AUTO (used if it is found), ON or OFF. It is not linked, but loaded when it is needed
# (base/files/library.h); option_file is its name for the dynamic loader. Sets OPTION_FOUND, and
# needs_option: a prefix for commands of tests that need the library, which skips them if it is
# missing.
function(etude_optional option library header title without package)
    string(TOLOWER ${option} name)
    string(TOUPPER ${library} prefix)
    set_property(CACHE ETUDE_${option} PROPERTY STRINGS AUTO ON OFF)
    set(found FALSE)
    set(file)
    set(needs sh -c "echo 'SKIPPED: all cases: built without ${title}' && exit 77")
    if(ETUDE_${option})
        find_library(${prefix}_LIBRARY NAMES lib${library}.so)
        find_path(${prefix}_INCLUDE ${header})
        if(${prefix}_LIBRARY AND ${prefix}_INCLUDE)
            etude_soname(file ${${prefix}_LIBRARY})
            set(found TRUE)
            set(needs)
            target_include_directories(etude_dependencies SYSTEM INTERFACE ${${prefix}_INCLUDE})
        elseif(ETUDE_${option} STREQUAL AUTO)
            message(STATUS "${title} not found: built without ${without} (${package})")
        else()
            message(FATAL_ERROR "ETUDE_${option} is ON, and ${title} is not there: install ${package}, "
                "or set it to OFF")
        endif()
    endif()
    set(${option}_FOUND ${found} PARENT_SCOPE)
    set(${name}_file ${file} PARENT_SCOPE)
    set(needs_${name} ${needs} PARENT_SCOPE)
endfunction()
# Without it `etude serve` and `etude watch` say that they were built without.
set(ETUDE_HTTP AUTO CACHE STRING "A server by libmicrohttpd: AUTO, ON or OFF")
etude_optional(HTTP microhttpd microhttpd.h libmicrohttpd servers libmicrohttpd-dev)
# Without it training by the roles of a cluster says that it was built without.
set(ETUDE_ZMQ AUTO CACHE STRING "Roles of a cluster by ZeroMQ: AUTO, ON or OFF")
etude_optional(ZMQ zmq zmq.h ZeroMQ "roles of a cluster" libzmq3-dev)
# Without it PyTorch's archives of weights cannot be read; safetensors files can.
set(ETUDE_ZIP AUTO CACHE STRING "Archives of PyTorch by libzip: AUTO, ON or OFF")
etude_optional(ZIP zip zip.h libzip "PyTorch's archives" libzip-dev)
# Without it paragraphs are not cut into sentences: `translate --split` says so.
set(ETUDE_ICU AUTO CACHE STRING "Sentences by ICU: AUTO, ON or OFF")
etude_optional(ICU icuuc unicode/ubrk.h ICU "sentence breaks" libicu-dev)
# Without it `translate --format xml` says so.
set(ETUDE_EXPAT AUTO CACHE STRING "XML documents by expat: AUTO, ON or OFF")
etude_optional(EXPAT expat expat.h expat "XML documents" libexpat1-dev)
# Without it `translate --format po` says so.
set(ETUDE_GETTEXTPO AUTO CACHE STRING "Message catalogues by libgettextpo: AUTO, ON or OFF")
etude_optional(GETTEXTPO gettextpo gettext-po.h libgettextpo "message catalogues" libgettextpo-dev)
# Without it `translate --format md` says that it was built without.
set(ETUDE_MD4C AUTO CACHE STRING "Markdown by MD4C: AUTO, ON or OFF")
etude_optional(MD4C md4c md4c.h MD4C Markdown libmd4c-dev)
# Without it `translate --format html` says that it was built without.
set(ETUDE_GUMBO AUTO CACHE STRING "HTML by Gumbo: AUTO, ON or OFF")
etude_optional(GUMBO gumbo gumbo.h Gumbo HTML libgumbo-dev)
find_library(DNNL_LIBRARY dnnl REQUIRED)
find_path(DNNL_INCLUDE oneapi/dnnl/dnnl.h REQUIRED)
target_include_directories(etude_dependencies SYSTEM INTERFACE ${DNNL_INCLUDE})
target_link_libraries(etude_dependencies INTERFACE
    PkgConfig::YAML
    PkgConfig::JANSSON
    PkgConfig::XXHASH
    PkgConfig::PROTOBUF_C
    PkgConfig::UTF8PROC
    PkgConfig::PCRE2
    $<$<BOOL:${SENTENCEPIECE_FOUND}>:${SENTENCEPIECE_LIBRARY}>
    $<$<BOOL:${SENTENCEPIECE_FOUND}>:${SENTENCEPIECE_TRAIN_LIBRARY}>
    ${DNNL_LIBRARY}
    OpenMP::OpenMP_C
    Threads::Threads
    ${CMAKE_DL_LIBS}
    ZLIB::ZLIB
    stdc++  # of our C++ files; what links us need not be C++
    m
)

# Needed only by tests; with AUTO and without it no tests are built.
set(ETUDE_TESTING OFF)
if(ETUDE_TESTS AND (BUILD_TESTING OR NOT PROJECT_IS_TOP_LEVEL))
    pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET GLOBAL cmocka)
    if(CMOCKA_FOUND)
        set(ETUDE_TESTING ON)
    elseif(ETUDE_TESTS STREQUAL AUTO)
        message(STATUS "cmocka not found: no tests (libcmocka-dev)")
    else()
        message(FATAL_ERROR "ETUDE_TESTS is ON, and cmocka is not there: install libcmocka-dev")
    endif()
endif()

# Libraries that a program links after libetude.a; written to etude.pc.
if(CMAKE_C_COMPILER_ID MATCHES Clang)
    set(openmp_flag -lomp)
else()
    set(openmp_flag -lgomp)
endif()
string(JOIN " " ETUDE_STATIC_LIBRARIES
    -lyaml -ljansson -lxxhash -lprotobuf-c -lutf8proc -lpcre2-8
    ${sentencepiece_libraries} -ldnnl -lz ${openmp_flag} -lstdc++ -lpthread -lm)
