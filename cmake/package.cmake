# Installation: libraries, headers, the command, etude.pc and the CMake package.
# In CMake: find_package(etude), target etude::etude; for the archive
# find_package(etude COMPONENTS static), target etude::etude_static.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/etude)
set_target_properties(etude_shared PROPERTIES EXPORT_NAME etude)
set_target_properties(etude PROPERTIES EXPORT_NAME etude_static)

install(TARGETS etude_shared EXPORT etude_shared_targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS etude etude_dependencies EXPORT etude_static_targets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET etude_cli)
    install(TARGETS etude_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
# Loaded by ranks that this MPI starts; searched from the command's folder and from the library's.
foreach(mpi IN LISTS ETUDE_MPIS)
    install(TARGETS etude_mpi_${mpi} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/etude)
endforeach()
install(DIRECTORY include/etude DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(EXPORT etude_shared_targets NAMESPACE etude:: FILE etudeSharedTargets.cmake
    DESTINATION ${package_dir})
install(EXPORT etude_static_targets NAMESPACE etude:: FILE etudeStaticTargets.cmake
    DESTINATION ${package_dir})

configure_package_config_file(cmake/etudeConfig.cmake.in etudeConfig.cmake
    INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(etudeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/etudeConfig.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/etudeConfigVersion.cmake DESTINATION ${package_dir})

# etude.pc has folders relative to itself, so an installed tree may be moved.
file(RELATIVE_PATH pc_prefix /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x)
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
configure_file(cmake/etude.pc.in etude.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/etude.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Documents, man pages and completions. Debian's packages have zsh's functions in
# vendor-completions.
set(ETUDE_ZSH_DIR zsh/site-functions CACHE STRING "Where zsh's completion goes, below share")
install(FILES LICENSE README.md ARCHITECTURE.md CHANGES.md CITATION.cff CONTRIBUTING.md SECURITY.md
    DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY doc configs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
    FILES_MATCHING PATTERN "*.c" PATTERN "*.cc" PATTERN "*.h" PATTERN "README.md" PATTERN "train.slurm")
if(TARGET pages)
    set(pages ${PROJECT_BINARY_DIR}/share)
    install(DIRECTORY ${pages}/man/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} OPTIONAL)
    install(DIRECTORY ${pages}/bash-completion ${pages}/fish
        DESTINATION ${CMAKE_INSTALL_DATADIR} OPTIONAL)
    install(DIRECTORY ${pages}/zsh/site-functions/
        DESTINATION ${CMAKE_INSTALL_DATADIR}/${ETUDE_ZSH_DIR} OPTIONAL)
endif()

# Last, when the library is installed.
if(NOT CMAKE_CROSSCOMPILING)
    install(CODE "set(ETUDE_LIBDIR \"${CMAKE_INSTALL_LIBDIR}\")")
    install(SCRIPT cmake/loader.cmake)
endif()
