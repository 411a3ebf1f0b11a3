# A project that has etude in a folder. ETUDE_SOURCE is the folder, HOW how it is added.
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C CXX)
if(HOW STREQUAL "fetch")
    include(FetchContent)
    FetchContent_Declare(etude SOURCE_DIR ${ETUDE_SOURCE})
    FetchContent_MakeAvailable(etude)
else()
    add_subdirectory(${ETUDE_SOURCE} etude)
endif()
# Etude must not change the settings of this project, nor add its tests.
if(CMAKE_BUILD_TYPE STREQUAL "Release" OR CMAKE_C_VISIBILITY_PRESET OR TARGET bench_step OR TARGET etude_cli
        OR TARGET base.test_alloc OR NOT TARGET etude::etude OR NOT TARGET etude::etude_static)
    message(FATAL_ERROR "etude leaks into the project, or lacks its targets")
endif()
add_executable(with_shared program.c)
target_link_libraries(with_shared PRIVATE etude::etude)
add_executable(with_static program.c)
target_link_libraries(with_static PRIVATE etude::etude_static)
