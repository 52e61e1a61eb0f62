# The CUDA back end, as a plugin that is opened on demand: cuBLAS alone costs every process that links it 140 ms.
# SHARDBENCH_CUDA=AUTO builds it where nvcc and NCCL are found; whether it is there is asked with TARGET shardbench_cuda.

# Sources of the back end; the emulated GPU of the tests compiles the same list (see tests/cuda_emulation).
file(GLOB SHARDBENCH_CUDA_SOURCES CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/kernels/*_cuda.cpp ${CMAKE_SOURCE_DIR}/kernels/*/*_cuda.cpp ${CMAKE_SOURCE_DIR}/kernels/*/*_cuda.cu
  ${CMAKE_SOURCE_DIR}/harness/comm/*_nccl.cpp)
# Needs headers that few machines have; below it takes the place of its namesake with "no_".
set(cudnn_source ${CMAKE_SOURCE_DIR}/kernels/attention/attention_cudnn_cuda.cpp)
list(REMOVE_ITEM SHARDBENCH_CUDA_SOURCES ${cudnn_source})
set_property(GLOBAL PROPERTY SHARDBENCH_CUDA_SOURCES ${SHARDBENCH_CUDA_SOURCES})

if(SHARDBENCH_CUDA STREQUAL "OFF")
  return()
endif()

find_program(SHARDBENCH_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
find_library(NCCL_LIBRARY nccl HINTS ENV NCCL_HOME ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES lib64 lib)
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ENV NCCL_HOME ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES include)
if(NOT SHARDBENCH_NVCC OR NOT NCCL_LIBRARY OR NOT NCCL_INCLUDE_DIR)
  set(missing "CUDA back end: nvcc ${SHARDBENCH_NVCC}, NCCL ${NCCL_LIBRARY} ${NCCL_INCLUDE_DIR}")
  if(SHARDBENCH_CUDA STREQUAL "ON")
    message(FATAL_ERROR "${missing}: not all found, and SHARDBENCH_CUDA is ON")
  endif()
  message(STATUS "${missing}: not all found, left out")
  return()
endif()

if(NOT DEFINED CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${SHARDBENCH_NVCC})
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)  # newer ones start from the PTX of the last
endif()
enable_language(CUDA)
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc takes C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
if(NOT TARGET CUDA::nvToolsExt)  # gone from CUDA 13, and CMake 3.25 does not forgive that
  add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
endif()
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)  # the tests of a real GPU link it too
find_package(CUDAToolkit REQUIRED)
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL OFF)

find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ENV CUDNN_HOME ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES include)
find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h HINTS ENV CUDNN_FRONTEND_HOME ENV CUDNN_HOME ENV CUDA_HOME
  PATHS /usr/local/cuda PATH_SUFFIXES include)
if(CUDNN_INCLUDE_DIR AND CUDNN_FRONTEND_INCLUDE_DIR)
  message(STATUS "cuDNN: ${CUDNN_INCLUDE_DIR}, frontend ${CUDNN_FRONTEND_INCLUDE_DIR}: --attention cudnn is built")
  list(FILTER SHARDBENCH_CUDA_SOURCES EXCLUDE REGEX "attention_no_cudnn_cuda\\.cpp$")
  list(APPEND SHARDBENCH_CUDA_SOURCES ${cudnn_source})
  # Its library is opened when asked for; its JSON would be one more of ours.
  set_source_files_properties(${cudnn_source} PROPERTIES
    COMPILE_DEFINITIONS "NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING;CUDNN_FRONTEND_SKIP_JSON_LIB"
    COMPILE_OPTIONS "-isystem${CUDNN_FRONTEND_INCLUDE_DIR};-isystem${CUDNN_INCLUDE_DIR}")
else()
  message(STATUS "cuDNN ${CUDNN_INCLUDE_DIR}, frontend ${CUDNN_FRONTEND_INCLUDE_DIR}: not both found, no --attention cudnn")
endif()

add_library(shardbench_cuda SHARED ${SHARDBENCH_CUDA_SOURCES})
target_link_libraries(shardbench_cuda PRIVATE sb_flags Threads::Threads CUDA::cudart CUDA::cublasLt ${NCCL_LIBRARY} ${CMAKE_DL_LIBS})
target_include_directories(shardbench_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${NCCL_INCLUDE_DIR})
target_compile_options(shardbench_cuda PRIVATE
  $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xcompiler=-Wall,-Wextra,-Wshadow>)
target_link_options(shardbench_cuda PRIVATE -Wl,--no-undefined)
set_target_properties(shardbench_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
