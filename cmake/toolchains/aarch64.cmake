# For aarch64 on another processor: Debian's cross compiler (g++-aarch64-linux-gnu) and, below
# ETUDE_AARCH64_ROOT, Debian's libraries as tools/debian-root unpacks them. Programs run in
# qemu-user, which finds those libraries by QEMU_LD_PREFIX. Use: cmake --preset aarch64;
# tools/aarch64 does all.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
if(NOT ETUDE_AARCH64_ROOT)
    get_filename_component(ETUDE_AARCH64_ROOT ${CMAKE_CURRENT_LIST_DIR}/../../build-aarch64/root ABSOLUTE)
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ETUDE_AARCH64_ROOT)
set(CMAKE_SYSROOT ${ETUDE_AARCH64_ROOT})
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# Without this, pkg-config would find the .pc files of this machine.
set(ENV{PKG_CONFIG_PATH} "")
set(ENV{PKG_CONFIG_LIBDIR}
    ${CMAKE_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
