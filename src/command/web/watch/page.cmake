# Makes OUT, a C file, of the page's parts: cmake -DOUT=FILE -P page.cmake. A line @NAME@ of page.html
# is replaced by the file of that name.
set(from ${CMAKE_CURRENT_LIST_DIR})
file(READ ${from}/page.html bytes HEX)
foreach(part page.css chart.js page.js)
    string(HEX "@${part}@\n" mark)
    file(READ ${from}/${part} text HEX)
    string(REPLACE "${mark}" "${text}" bytes "${bytes}")
endforeach()
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REPEAT "0x..," 16 line)
string(REGEX REPLACE "(${line})" "    \\1\n" bytes "${bytes}")
file(WRITE ${OUT} "#include \"command/web/watch_page.h\"\n
const unsigned char et_watch_page[] = {\n${bytes}\n};
const size_t et_watch_page_length = sizeof et_watch_page;\n")
