# etude_messages(MESSAGE...): generates C from MESSAGE.proto, which may be in a folder below this
# one. It runs when CMake configures, because a target cannot list a file that another folder makes.
# An unchanged file is not written again, because that would recompile half of the sources. Sources
# include FOLDER/MESSAGE.pb-c.h.
find_program(PROTOC_C protoc-c REQUIRED)
function(etude_messages)
    foreach(message ${ARGN})
        set(proto ${CMAKE_CURRENT_SOURCE_DIR}/${message}.proto)
        get_filename_component(folder ${proto} DIRECTORY)
        get_filename_component(beside ${CMAKE_CURRENT_BINARY_DIR}/${message} DIRECTORY)
        get_filename_component(made ${CMAKE_CURRENT_BINARY_DIR}/new/${message} DIRECTORY)
        file(MAKE_DIRECTORY ${beside} ${made})
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${proto})
        execute_process(
            COMMAND ${PROTOC_C} --proto_path=${folder}
                    --c_out=${made} ${proto}
            COMMAND_ERROR_IS_FATAL ANY)
        foreach(generated ${message}.pb-c.c ${message}.pb-c.h)
            file(COPY_FILE ${CMAKE_CURRENT_BINARY_DIR}/new/${generated}
                ${CMAKE_CURRENT_BINARY_DIR}/${generated} ONLY_IF_DIFFERENT)
        endforeach()
        set(generated ${CMAKE_CURRENT_BINARY_DIR}/${message}.pb-c.c)
        target_sources(etude_objects PRIVATE ${generated})
        # No warnings for generated code.
        set_source_files_properties(${generated} TARGET_DIRECTORY etude_objects
            PROPERTIES COMPILE_OPTIONS "-w")
    endforeach()
endfunction()
