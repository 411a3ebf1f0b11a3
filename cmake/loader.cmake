# Run at the end of an installation: runs ldconfig so that the system's loader finds libetude.so, or
# says what a program needs to find it. ETUDE_LIBDIR is the folder of the library. With a DESTDIR it
# does nothing, because the files are for a package.
cmake_policy(VERSION 3.25)
if(NOT "$ENV{DESTDIR}" STREQUAL "")
    return()
endif()
if(NOT IS_ABSOLUTE "${ETUDE_LIBDIR}")
    set(ETUDE_LIBDIR "${CMAKE_INSTALL_PREFIX}/${ETUDE_LIBDIR}")
endif()
get_filename_component(ETUDE_LIBDIR "${ETUDE_LIBDIR}" ABSOLUTE)
get_filename_component(folder "${ETUDE_LIBDIR}" REALPATH)
find_program(ldconfig ldconfig PATHS /sbin /usr/sbin NO_CACHE)

# Folders that the loader searches: "/usr/local/lib: (from ...)".
set(searched)
if(ldconfig)
    execute_process(COMMAND ${ldconfig} -v -N -X OUTPUT_VARIABLE listed ERROR_QUIET)
    string(REGEX MATCHALL "(^|\n)/[^:\n]*:" lines "${listed}")
    foreach(line IN LISTS lines)
        string(REGEX REPLACE "[:\n]" "" line "${line}")
        get_filename_component(line "${line}" REALPATH)
        list(APPEND searched "${line}")
    endforeach()
endif()

if(NOT folder IN_LIST searched)
    message(STATUS "Note: the loader does not search ${ETUDE_LIBDIR}. Set "
        "LD_LIBRARY_PATH=${ETUDE_LIBDIR}, or link programs with -Wl,-rpath,${ETUDE_LIBDIR}.")
    return()
endif()
execute_process(COMMAND ${ldconfig} RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
if(failed)
    message(STATUS "Note: ldconfig needs root. Run it as root (sudo ldconfig), or programs do not "
        "find ${ETUDE_LIBDIR}/libetude.so.")
else()
    message(STATUS "Ran ldconfig: programs find ${ETUDE_LIBDIR}/libetude.so.")
endif()
