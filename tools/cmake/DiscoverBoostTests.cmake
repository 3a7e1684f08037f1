# troupe_discover_tests(PROGRAM): one CTest test for every suite of a Boost.Test program, found by asking the program
# after it was built, so that no list has to be kept by hand. The test is named PROGRAM_WITHOUT_test_.SUITE.

if(CMAKE_SCRIPT_MODE_FILE)  # after the build: cmake -DPROGRAM=... -DAREA=... -DOUTPUT=... -P this file
  # Top-level suites are the lines without indentation; a case outside of any suite is one too.
  execute_process(COMMAND ${PROGRAM} --list_content=HRF ERROR_VARIABLE content RESULT_VARIABLE status)
  if(status)
    message(FATAL_ERROR "${PROGRAM} --list_content ended with ${status}: ${content}")
  endif()
  string(REGEX MATCHALL "(^|\n)[A-Za-z_0-9]+" suites "${content}")
  set(script "")
  foreach(suite ${suites})
    string(STRIP "${suite}" suite)
    string(APPEND script "add_test(${AREA}.${suite} ${PROGRAM} --run_test=${suite} --color_output=no --report_level=no)\n"
                         "set_tests_properties(${AREA}.${suite} PROPERTIES LABELS ${AREA})\n")
  endforeach()
  file(WRITE ${OUTPUT} "${script}")
  return()
endif()

set(TROUPE_DISCOVER_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(troupe_discover_tests program)
  string(REPLACE "test_" "" area ${program})
  set(list ${CMAKE_CURRENT_BINARY_DIR}/${program}_suites.cmake)
  add_custom_command(TARGET ${program} POST_BUILD VERBATIM
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${program}> -DAREA=${area} -DOUTPUT=${list}
            -P ${TROUPE_DISCOVER_SCRIPT})
  # A program that is not built is a test that fails, not one that is forgotten.
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${program}_include.cmake
       "if(EXISTS \"${list}\")\n  include(\"${list}\")\nelse()\n  add_test(${program}_NOT_BUILT ${program}_NOT_BUILT)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/${program}_include.cmake)
endfunction()
