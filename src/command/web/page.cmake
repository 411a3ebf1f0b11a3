# Makes OUT, a C file, from the page of NAME: cmake -DNAME=watch -DOUT=FILE -P page.cmake. OUT is
# written only if it changes, so that a second build has nothing to do. A line
# @FILE@ of NAME/NAME.html is replaced by that file of the folder.
set(from ${CMAKE_CURRENT_LIST_DIR}/${NAME})
file(READ ${from}/${NAME}.html bytes HEX)
file(GLOB parts RELATIVE ${from} ${from}/*)
foreach(part IN LISTS parts)
    string(HEX "@${part}@\n" mark)
    file(READ ${from}/${part} text HEX)
    string(REPLACE "${mark}" "${text}" bytes "${bytes}")
endforeach()
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REPEAT "0x..," 16 line)
string(REGEX REPLACE "(${line})" "    \\1\n" bytes "${bytes}")
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT "#include \"command/web/web.h\"\n
const unsigned char et_${NAME}_page[] = {\n${bytes}\n};
const size_t et_${NAME}_page_length = sizeof et_${NAME}_page;\n")
