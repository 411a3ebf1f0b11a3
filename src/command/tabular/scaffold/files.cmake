# Makes OUT, a C file, from the templates in this folder: cmake -DOUT=FILE -P files.cmake
# Rows: project, name in the project, template.
set(rows
    "NULL|CMakeLists.txt|CMakeLists.txt.in"
    "NULL|README.md|README.md.in"
    "\"custom\"|main.c|custom.c.in"
    "\"feed_forward\"|main.c|feed_forward.c.in")
set(arrays "")
set(table "")
set(number 0)
foreach(row IN LISTS rows)
    string(REPLACE "|" ";" part "${row}")
    list(GET part 0 model)
    list(GET part 1 name)
    list(GET part 2 template)
    file(READ ${CMAKE_CURRENT_LIST_DIR}/${template} bytes HEX)
    # @COMMON@ with its line end is replaced by the lines that both projects share.
    file(READ ${CMAKE_CURRENT_LIST_DIR}/common.c.in common HEX)
    string(REPLACE "40434f4d4d4f4e400a" "${common}" bytes "${bytes}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(APPEND arrays "static const char text_${number}[] = { ${bytes}0 };\n")
    string(APPEND table "    { ${model}, \"${name}\", text_${number} },\n")
    math(EXPR number "${number} + 1")
endforeach()
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT "#include \"command/tabular/tabular_commands.h\"\n\n#include <stddef.h>\n\n${arrays}
const et_scaffold_file et_scaffold_files[] = {\n${table}    { 0, 0, 0 },\n};\n")
