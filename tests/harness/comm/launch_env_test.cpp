#include "harness/comm/launch_env.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

using Variables = std::map<std::string, std::string>;

Environment environment_of(Variables const& variables) {
  return [&variables](char const* name) -> char const* {
    auto const found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

bool launched(Variables const& variables) { return launched_as_job(environment_of(variables)); }
int rank_of(Variables const& variables) { return local_rank(environment_of(variables)); }
int size_of(Variables const& variables) { return local_size(environment_of(variables)); }

TEST(LaunchEnvironment, LaunchersAreRecognised) {
  EXPECT_FALSE(launched({}));
  EXPECT_TRUE(launched({{"OMPI_COMM_WORLD_SIZE", "4"}}));
  EXPECT_TRUE(launched({{"OMPI_COMM_WORLD_SIZE", "1"}})) << "mpirun -np 1 is a job too";
  EXPECT_FALSE(launched({{"OMPI_COMM_WORLD_SIZE", ""}}));
  EXPECT_TRUE(launched({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}));
  EXPECT_FALSE(launched({{"PMI_RANK", "0"}}));
  EXPECT_TRUE(launched({{"PMIX_RANK", "0"}}));
}

TEST(LaunchEnvironment, AMeetingWithoutMpi) {
  Variables variables{{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};
  auto meeting = rendezvous_of(environment_of(variables));
  ASSERT_TRUE(meeting);
  EXPECT_EQ(meeting->rank, 1);
  EXPECT_EQ(meeting->size, 4);
  EXPECT_EQ(meeting->address, "node0");
  EXPECT_EQ(meeting->port, 29500);
  EXPECT_TRUE(launched(variables));
  EXPECT_FALSE(launched_by_mpi(environment_of(variables)));
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(rendezvous_of(environment_of(variables))->port, 29501) << "torchrun's store holds the port itself";
  for (char const* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    Variables without = variables;
    without.erase(name);
    EXPECT_FALSE(rendezvous_of(environment_of(without))) << name;
    EXPECT_FALSE(launched(without)) << name;
  }
}

TEST(LaunchEnvironment, BadMeetingsNameTheVariable) {
  Variables const good{{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};
  auto const message = [&](char const* name, char const* value) -> std::string {
    Variables bad = good;
    bad[name] = value;
    try {
      static_cast<void>(rendezvous_of(environment_of(bad)));
    } catch (InputError const& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message("RANK", "4"), "environment variable RANK is 4: below WORLD_SIZE (4) is allowed");
  EXPECT_EQ(message("RANK", "one"), "environment variable RANK is 'one': a number >= 0 is allowed");
  EXPECT_EQ(message("MASTER_PORT", "70000"), "environment variable MASTER_PORT is 70000: 1 .. 65535 is allowed");
  EXPECT_EQ(message("MASTER_PORT", "0"), "environment variable MASTER_PORT is 0: 1 .. 65535 is allowed");
}

TEST(LaunchEnvironment, ASlurmShellIsNotAJobStep) {
  EXPECT_FALSE(launched({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "8"}})) << "a batch script";
  EXPECT_FALSE(launched({{"SLURM_STEP_ID", "4294967290"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_NTASKS", "8"}}))
      << "an interactive step";
  EXPECT_TRUE(launched({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_NTASKS", "8"}}));
  EXPECT_TRUE(launched({{"SLURM_STEPID", "0"}, {"SLURM_NTASKS", "2"}}));
}

TEST(LaunchEnvironment, LocalRankAndSize) {
  EXPECT_EQ(rank_of({}), 0);
  EXPECT_EQ(size_of({}), 1);
  EXPECT_EQ(rank_of({{"OMPI_COMM_WORLD_LOCAL_RANK", "3"}, {"LOCAL_RANK", "9"}}), 3);
  EXPECT_EQ(rank_of({{"SLURM_LOCALID", "5"}}), 5);
  EXPECT_EQ(rank_of({{"LOCAL_RANK", "1"}}), 1);
  EXPECT_EQ(size_of({{"OMPI_COMM_WORLD_LOCAL_SIZE", "8"}}), 8);
  EXPECT_EQ(size_of({{"LOCAL_WORLD_SIZE", "2"}}), 2);
}

TEST(LaunchEnvironment, TasksPerNodeInSlurmsShortForm) {
  Variables variables{{"SLURM_STEP_TASKS_PER_NODE", "8(x2),4,1"}};
  for (auto const& [node, tasks] : std::map<std::string, int>{{"0", 8}, {"1", 8}, {"2", 4}, {"3", 1}}) {
    variables["SLURM_NODEID"] = node;
    EXPECT_EQ(size_of(variables), tasks) << node;
  }
  variables.at("SLURM_NODEID") = std::to_string(4);
  EXPECT_THROW(size_of(variables), InputError);
}

TEST(LaunchEnvironment, GarbageIsRefusedNamingTheVariable) {
  for (char const* value : {"x", "-1", "1x", " 1", "99999999999"}) {
    try {
      rank_of({{"LOCAL_RANK", value}});
      ADD_FAILURE() << value;
    } catch (InputError const& error) {
      EXPECT_NE(std::string(error.what()).find("LOCAL_RANK"), std::string::npos);
      EXPECT_NE(std::string(error.what()).find(value), std::string::npos);
    }
  }
  for (char const* value : {"(x2)", "8(x", "8(xq)", ",", "8,,4"})
    EXPECT_THROW(size_of({{"SLURM_STEP_TASKS_PER_NODE", value}, {"SLURM_NODEID", "9"}}), InputError) << value;
}

}  // namespace
}  // namespace shardbench
