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
install(DIRECTORY include/etude DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.h")
install(EXPORT etude_shared_targets NAMESPACE etude:: FILE etudeSharedTargets.cmake
    DESTINATION ${package_dir})
install(EXPORT etude_static_targets NAMESPACE etude:: FILE etudeStaticTargets.cmake
    DESTINATION ${package_dir})

configure_package_config_file(cmake/etudeConfig.cmake.in etudeConfig.cmake
    INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(etudeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/etudeConfig.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/etudeConfigVersion.cmake DESTINATION ${package_dir})

# etude.pc finds its folders from its own place, so an installed tree may be moved.
file(RELATIVE_PATH pc_prefix /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x)
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
configure_file(cmake/etude.pc.in etude.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/etude.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
