# `cmake --install build --prefix DIR` lays out the library for find_package(Troupe): headers as <troupe/...>, the
# static libraries as Troupe::kernels, Troupe::ps and Troupe::actors, and the find module that CAF lacks.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Troupe)

foreach(folder kernels ps actors)
  if(TARGET troupe_${folder})
    set_target_properties(troupe_${folder} PROPERTIES EXPORT_NAME ${folder})
    target_include_directories(troupe_${folder} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_compile_features(troupe_${folder} INTERFACE cxx_std_20)
    install(TARGETS troupe_${folder} EXPORT Troupe ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    # What lies in these folders is not part of the interface, and may name third-party libraries.
    install(DIRECTORY ${CMAKE_SOURCE_DIR}/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/troupe
            FILES_MATCHING PATTERN "*.h"
            PATTERN cpu EXCLUDE PATTERN cuda EXCLUDE PATTERN nccl EXCLUDE PATTERN internal EXCLUDE)
  endif()
endforeach()
if(TARGET troupe)
  install(TARGETS troupe RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

install(EXPORT Troupe NAMESPACE Troupe:: FILE TroupeTargets.cmake DESTINATION ${package_folder})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/TroupeConfig.cmake.in ${CMAKE_BINARY_DIR}/TroupeConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/TroupeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/TroupeConfig.cmake ${CMAKE_BINARY_DIR}/TroupeConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindCAF.cmake
        DESTINATION ${package_folder})
